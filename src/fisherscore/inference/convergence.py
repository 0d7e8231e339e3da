"""Whether chains agree, and how many independent draws they are worth: R-hat and the effective sample size."""

import numpy as np
from scipy.fft import next_fast_len


def convergence(chains: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return R-hat and the effective number of draws of each parameter, shape (p,), from chains (chains, draws, p).

    Posteriors may stand beside one another: chains of shape (chains, draws, m, p) give (m, p).
    """
    draws = np.asarray(chains, np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):  # a parameter that never moves has neither
        return _split_r_hat(draws), _effective_samples(draws)


def _variances(draws: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the variance within chains, and the variance of the posterior as estimated from all of them."""
    num_chains, num_draws = draws.shape[:2]
    within = draws.var(axis=1, ddof=1).mean(axis=0)
    estimated = within * (num_draws - 1) / num_draws
    if num_chains == 1:
        return estimated, estimated
    return within, estimated + draws.mean(axis=1).var(axis=0, ddof=1)


def _split_r_hat(draws: np.ndarray) -> np.ndarray:
    """Compare the halves of all chains (Gelman et al., Bayesian Data Analysis, 2013)."""
    half = draws.shape[1] // 2
    within, estimated = _variances(np.concatenate([draws[:, :half], draws[:, -half:]]))
    return np.sqrt(estimated / within)


def _effective_samples(draws: np.ndarray) -> np.ndarray:
    """Divide the number of draws by their autocorrelation time, by Geyer's initial monotone sequence."""
    num_chains, num_draws = draws.shape[:2]
    size = 2 * next_fast_len(num_draws, real=True)
    spectrum = np.fft.rfft(draws - draws.mean(axis=1, keepdims=True), size, axis=1)
    covariance = np.fft.irfft(np.abs(spectrum) ** 2, size, axis=1)[:, :num_draws].mean(axis=0) / num_draws
    within, estimated = _variances(draws)
    correlation = 1 - (within - covariance) / estimated
    correlation[0] = 1.0
    pairs = correlation[:-1:2] + correlation[1::2]
    pairs[1:] = np.minimum.accumulate(np.maximum(pairs[1:], 0.0), axis=0)
    return num_chains * num_draws / (2 * pairs.sum(axis=0) - 1)
