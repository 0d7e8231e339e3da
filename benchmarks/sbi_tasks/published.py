"""What others have on the ten tasks: classifier accuracies, means of ten observations, and what we aim at.

Lueckmann et al. 2021, ``main_paper.csv`` of the results published with the benchmark: the best of its methods that
simulate all over the prior (single) and the best of those that simulate in rounds (sequential), for 1,000 and 10,000
simulations.
"""

BUDGETS = (1_000, 10_000)

# Task: best single, best sequential, goal of an aimed inference; each for both budgets.
PUBLISHED: dict[str, dict[str, tuple[float, float]]] = {
    "gaussian_linear": {"single": (0.65, 0.55), "sequential": (0.63, 0.54), "goal": (0.53, 0.51)},
    "gaussian_linear_uniform": {"single": (0.70, 0.55), "sequential": (0.63, 0.53), "goal": (0.53, 0.51)},
    "bernoulli_glm": {"single": (0.74, 0.61), "sequential": (0.63, 0.55), "goal": (0.60, 0.53)},
    "bernoulli_glm_raw": {"single": (0.87, 0.77), "sequential": (0.88, 0.66), "goal": (0.75, 0.60)},
    "sir": {"single": (0.76, 0.68), "sequential": (0.64, 0.56), "goal": (0.57, 0.53)},
    "lotka_volterra": {"single": (0.99, 0.96), "sequential": (0.91, 0.74), "goal": (0.60, 0.53)},
    "slcp": {"single": (0.95, 0.77), "sequential": (0.92, 0.71), "goal": (0.85, 0.62)},
    "slcp_distractors": {"single": (0.98, 0.96), "sequential": (0.98, 0.93), "goal": (0.90, 0.75)},
    "two_moons": {"single": (0.73, 0.61), "sequential": (0.64, 0.55), "goal": (0.60, 0.53)},
    "gaussian_mixture": {"single": (0.73, 0.66), "sequential": (0.70, 0.58), "goal": (0.62, 0.54)},
}
