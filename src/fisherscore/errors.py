"""Every error and warning this package raises on purpose.

Each also derives from the built-in exception a caller would expect, so that ``except ValueError`` works as well as
``except fisherscore.ArgumentError``.
"""


class FisherScoreError(Exception):
    """Base of all errors of this package.

    >>> import fisherscore as fs
    >>> try:
    ...     fs.uniform(a=(1.0, 0.0))
    ... except fs.FisherScoreError as error:
    ...     print(type(error).__name__)
    ArgumentError
    """


class ArgumentError(FisherScoreError, ValueError):
    """An argument is wrong: the message names it, what was expected, what came and what to do."""


class SimulationError(FisherScoreError, RuntimeError):
    """The user's simulator failed, or what it returned cannot be used."""


class TrainingError(FisherScoreError, RuntimeError):
    """A fit cannot go on, for instance because its loss is not finite."""


class ModelFolderError(FisherScoreError, ValueError):
    """A saved folder (model or checkpoint) is missing, damaged, foreign or from a newer version."""


class CampaignError(FisherScoreError, ValueError):
    """A campaign's folder is damaged, foreign, in use, or belongs to another configuration."""


class MissingExtraError(FisherScoreError, ImportError):
    """An optional dependency is not installed; the message says how to get it."""


class FisherScoreWarning(UserWarning):
    """Something the user should know, though a result could be given."""
