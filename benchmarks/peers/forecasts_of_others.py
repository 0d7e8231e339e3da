"""Fisher matrices by CompressedFisher and DerivKit from simulations in a file; run by an interpreter that has both.

It reads, for each case, simulations at θ₀ and a step beside it along each parameter, in units of the step and with the
same random numbers, and prints Fisher matrices in the same units as JSON.
"""

import json
import sys
import warnings
from importlib.metadata import version
from typing import Any

import numpy as np
from CompressedFisher import gaussianFisher, poissonFisher
from derivkit import ForecastKit

Matrices = dict[str, np.ndarray]


def compressed(centre: np.ndarray, ends: np.ndarray, family: str) -> Matrices:
    """Make the standard, the compressed and the combined estimate, told of which family the data are."""
    names = [str(i) for i in range(len(ends))]
    if family == "poisson":
        fisher = poissonFisher(names, ends.shape[2], deriv_finite_dif_accuracy=2)
        fisher.initailize_variance(centre)
    else:
        moves = family == "gaussian, covariance moves"
        fisher = gaussianFisher(names, ends.shape[2], include_covmat_param_depedence=moves, deriv_finite_dif_accuracy=2)
        fisher.initailize_covmat(centre)
    fisher.initailize_deriv_sims(dict(zip(names, ends, strict=True)), dict.fromkeys(names, 1.0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says that all simulations are used, which is meant
        standard = fisher.compute_fisher_forecast(names)
        halves = fisher.compute_compressed_fisher_forecast_wShuffle(names, 0.5)
        both = fisher.compute_combined_fisher_forecast_wShuffle(names, 0.5)
    found = {"standard": standard, "compressed": halves, "combined": both}
    return {f"CompressedFisher, {name}": np.linalg.inv(np.real(matrix)) for name, matrix in found.items()}


def derivkit(centre: np.ndarray, ends: np.ndarray, family: str) -> Matrices:
    """Make the matrix of DerivKit: it differentiates means, and covariances where they move, of these simulations."""
    p = len(ends)
    points = {(0,) * p: centre}
    for axis, (low, high) in enumerate(ends):
        for sign, rows in ((-1, low), (1, high)):
            points[tuple(sign * (k == axis) for k in range(p))] = rows

    def at(place: Any) -> np.ndarray:
        return points[tuple(int(np.rint(value)) for value in np.atleast_1d(place))]

    settings = {"method": "finite", "stepsize": 1.0, "num_points": 3, "extrapolation": None, "n_workers": 1}

    def mean(place: Any) -> np.ndarray:
        return at(place).mean(axis=0)

    def covariance(place: Any) -> np.ndarray:
        return np.cov(at(place).T)

    moves = family == "gaussian, covariance moves"
    kit = ForecastKit(mean, np.zeros(p), covariance if moves else covariance(np.zeros(p)))
    return {"DerivKit": kit.gaussian_fisher(**settings) if moves else kit.fisher(**settings)}


def main() -> None:
    order = json.loads(sys.argv[1])
    results = []
    for case in order["cases"]:
        np.random.seed(case["seed"])  # noqa: NPY002 (CompressedFisher shuffles by it)
        with np.load(case["file"]) as file:
            centre, ends = file["centre"], file["ends"]
        found = compressed(centre, ends, case["family"]) | derivkit(centre, ends, case["family"])
        results.append({name: np.asarray(matrix).tolist() for name, matrix in found.items()})
    versions = {name: version(name) for name in ("CompressedFisher", "derivkit", "numpy")}
    print(json.dumps({"results": results, "versions": versions}))


if __name__ == "__main__":
    main()
