"""A neural likelihood by FlowJAX with its defaults, on standardised rows; run by an interpreter that has it.

The package has no sampler of posteriors: draws are made by a random walk, tuned to accept a quarter of its steps.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from exchange import Fitted, Rows, serve
from flowjax.distributions import Normal
from flowjax.flows import masked_autoregressive_flow
from flowjax.train import fit_to_data

CHAINS, WARM_UP = 100, 500


def fit(given: dict[str, Rows], order: dict[str, Any]) -> Fitted:
    low, scale = given["low"], given["high"] - given["low"]
    centre, spread = given["x"].mean(axis=0), given["x"].std(axis=0) + 1e-9

    def unit(theta: Rows) -> Any:
        return jnp.asarray(2 * (theta - low) / scale - 1, jnp.float32)

    def data(x: Rows) -> Any:
        return jnp.asarray((x - centre) / spread, jnp.float32)

    key, other = jax.random.split(jax.random.key(order["seed"]))
    base = Normal(jnp.zeros(given["x"].shape[1]))
    flow = masked_autoregressive_flow(key, base_dist=base, cond_dim=len(low))
    flow, _ = fit_to_data(other, flow, (data(given["x"]), unit(given["theta"])), show_progress=False)
    log_prob = jax.jit(lambda theta, x: flow.log_prob(x, condition=theta))
    gradient = jax.jit(jax.vmap(jax.grad(lambda theta, x: flow.log_prob(x, condition=theta))))

    def draw(x: Rows, num: int) -> Rows:
        rng, p = np.random.default_rng(order["seed"]), len(low)
        place, rows = rng.uniform(-1, 1, (CHAINS, p)), data(np.tile(x, (CHAINS, 1)))
        value, step, kept = np.asarray(log_prob(jnp.asarray(place, jnp.float32), rows)), 0.3, []
        for turn in range(WARM_UP + -(-num // CHAINS) * 10):
            there = place + step * rng.normal(size=place.shape)
            inside = (np.abs(there) < 1).all(axis=1)
            new = np.where(inside, np.asarray(log_prob(jnp.asarray(there, jnp.float32), rows)), -np.inf)
            taken = np.log(rng.uniform(size=CHAINS)) < new - value
            place, value = np.where(taken[:, None], there, place), np.where(taken, new, value)
            if turn < WARM_UP:
                step *= np.exp((taken.mean() - 0.25) * 0.1)
            elif turn % 10 == 9:
                kept.append(place)
        return low + scale * (np.concatenate(kept)[:num] + 1) / 2

    return Fitted(
        draw,
        lambda theta, x: np.asarray(log_prob(unit(theta), data(x)), float),
        lambda theta, x: np.asarray(gradient(unit(theta), data(x)), float) * 2 / scale,
    )


if __name__ == "__main__":
    serve(fit, ("flowjax", "jax"))
