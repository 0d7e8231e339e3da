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
    """An argument is wrong: the message names it, what was expected, what came and what to do.

    >>> import fisherscore as fs
    >>> try:
    ...     fs.uniform(a=(1.0, 0.0))
    ... except fs.ArgumentError as error:
    ...     print("refused")
    refused
    """


class SimulationError(FisherScoreError, RuntimeError):
    """The user's simulator failed, or what it returned cannot be used.

    >>> import fisherscore as fs
    >>> try:
    ...     fs.from_python(lambda theta, rng: 1 / 0).draw([0.0])
    ... except fs.SimulationError as error:
    ...     print("refused")
    refused
    """


class TrainingError(FisherScoreError, RuntimeError):
    """A fit cannot go on, for instance because its loss is not finite.

    >>> import fisherscore as fs
    >>> issubclass(fs.TrainingError, RuntimeError)
    True
    """


class ModelFolderError(FisherScoreError, ValueError):
    """A saved folder (model, posterior, forecast or checkpoint) is missing, damaged, foreign or from a newer version.

    Also raised where such a folder cannot be written, or would take the place of something else.

    >>> import fisherscore as fs
    >>> try:
    ...     fs.load("no such folder")
    ... except fs.ModelFolderError as error:
    ...     print("refused")
    refused
    """


class CampaignError(FisherScoreError, ValueError):
    """A campaign's folder is damaged, foreign, in use, or belongs to another configuration.

    >>> import fisherscore as fs
    >>> try:
    ...     fs.open_campaign("no such folder")
    ... except fs.CampaignError as error:
    ...     print("refused")
    refused
    """


class ConfigurationError(FisherScoreError, ValueError):
    """An analysis file is wrong: the message names the line, what was expected, what came and what to do.

    >>> import fisherscore as fs
    >>> issubclass(fs.ConfigurationError, ValueError)
    True
    """


class MissingExtraError(FisherScoreError, ImportError):
    """An optional dependency is not installed; the message says how to get it.

    >>> import fisherscore as fs
    >>> issubclass(fs.MissingExtraError, ImportError)
    True
    """


class FisherScoreWarning(UserWarning):
    """Something the user should know, though a result could be given.

    >>> import fisherscore as fs
    >>> issubclass(fs.FisherScoreWarning, UserWarning)
    True
    """
