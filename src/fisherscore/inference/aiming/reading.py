"""How an aimed inference reads data: a user's own features, and which pixels of a series or map were observed."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._support.arguments import as_finite
from ..._support.masks import with_nan_for_masked
from ...errors import ArgumentError
from ...fitting.embed import checked_mask
from ...fitting.recipes import AutoRecipe
from ...summaries.field_shape import FieldShape
from ...summaries.given import GivenFeatures
from ..posterior_checks import observation_mark


@dataclass(frozen=True, eq=False)
class Reading:
    """Features and mask as :func:`fisherscore.fit` takes them; neither, for data that are taken as they are."""

    features: Callable[..., Any] | None = None
    mask: np.ndarray | None = None

    @classmethod
    def of(cls, features: Any, mask: Any, x_obs: Any, recipe: Any) -> tuple["Reading", Any]:
        """Look at features and mask before anything is simulated; return them, and the observation as it is read.

        What the observation holds where nothing was observed, NaN or anything, never matters.
        """
        if mask is not None:
            if not (recipe == "auto" or (isinstance(recipe, AutoRecipe) and recipe.statistics)):
                raise ArgumentError('mask: is for recipe="auto". Leave recipe= out, or mask=.')
            given = np.asarray(with_nan_for_masked(x_obs), np.float64)
            mask = checked_mask(mask, given.shape)
            if FieldShape.of(given.shape) is None:
                raise ArgumentError(f"mask: is for series and maps, got an observation of shape {given.shape}.")
            x_obs = np.where(mask, given, 0.0)
        x_obs = as_finite(x_obs, "x_obs")
        if features is not None:
            GivenFeatures.of(features, x_obs)
        return cls(features, mask), x_obs

    @property
    def for_fit(self) -> dict[str, Any]:
        """The arguments of a fit."""
        return {"features": self.features, "mask": self.mask}

    def rows(self, x: Any) -> np.ndarray:
        """Return data (n, ...) as a pilot sees them, shape (n, d): features alone where there are any."""
        x = np.asarray(x, np.float64)
        if self.mask is not None:
            x = np.where(self.mask, x, 0.0)
        if self.features is not None:
            return GivenFeatures.of(self.features, x[0]).rows(x)
        return x.reshape(len(x), -1)

    def marks(self, x_obs: np.ndarray) -> dict[str, Any]:
        """Return what both are known by again: the features of the observation, and the mask."""
        known: dict[str, Any] = {}
        if self.features is not None:
            known["features"] = observation_mark(self.rows(x_obs[None]))
        if self.mask is not None:
            known["mask"] = observation_mark(self.mask)
        return known


AS_THEY_ARE = Reading()
