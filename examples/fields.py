# ruff: noqa: E501
"""The tutorial docs/tutorials/fields.md as a script; made from it by docs/to_script.py."""

# %% [markdown]
# # Fields and what summaries keep
#
# At the end of this page you have learned the scores of two summaries of a random field, and know how much of the
# field's information each keeps. Reading takes ten minutes; running takes one to two minutes on two cores.
#
# ## Why summaries
#
# A field is thousands of numbers or more, and a fit has to reduce it to fewer. `fs.fit` does so by itself for
# [maps and series](../docs/tutorials/../howto/maps.md), with statistics of its own choice. Where the summaries are yours to choose, as in a
# survey that will publish spectra, the score that is learned is the score of the summaries. It is a right score, with
# right errors. But what the summaries have lost no fit brings back. A forecast for each candidate says what it is worth
# before any data are taken.
#
# ## A field whose information is known
#
# Take a log-normal field on a periodic grid of 16 × 16 points: the exponential of a Gaussian field with power spectrum
# A (k / 4)⁻ⁿ. The parameters are the amplitude A and the slope n. Taking the logarithm loses nothing, and the Fourier
# modes of a Gaussian field are independent Gaussian numbers of variance P(k). So the Fisher matrix of the whole field
# is ½ Σ ∂ ln P ∂ ln P over its 255 modes, the mean left out, which is zero here.

# %%
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import fisherscore as fs

size, num_bins = 16, 8
frequency = np.fft.fftfreq(size, 1 / size)
wave = np.hypot(frequency[:, None], frequency[None, :])
bins = np.digitize(wave, np.linspace(0.5, wave.max() + 0.01, num_bins + 1)) - 1  # the mean is in no bin


def logarithm(key, theta):
    """Draw the Gaussian field whose exponential is the log-normal field."""
    amplitude, slope = theta
    power = jnp.where(wave > 0, amplitude * (jnp.maximum(wave, 1.0) / 4.0) ** -slope, 0.0)
    white = jax.random.normal(key, (size, size))
    return jnp.fft.ifft2(jnp.fft.fft2(white) * jnp.sqrt(power)).real


theta0 = np.array([0.6, 2.0])
modes = wave[wave > 0]
derivatives = np.stack([np.full(modes.shape, 1 / theta0[0]), -np.log(modes / 4.0)])
exact = fs.FisherMatrix(("amplitude", "slope"), derivatives @ derivatives.T / 2)
print("σ from the whole field", exact.sigma.round(4))


# %% [markdown]
# ```text
# σ from the whole field [0.0651 0.1851]
# ```


# %%
figure, axes = plt.subplots(1, 2, figsize=(7, 3), layout="constrained")
for ax, slope in zip(axes, (1.0, 3.0), strict=True):
    field = jnp.exp(logarithm(jax.random.key(1), jnp.array([0.6, slope])))
    image = ax.imshow(field, norm="log", vmin=0.05, vmax=50)
    ax.set(title=f"slope {slope:g}", xticks=[], yticks=[])
figure.colorbar(image, ax=axes, label="field")
figure.savefig("fields.png", dpi=150)


# %% [markdown]
# ![Log-normal fields of two slopes, from the same random numbers](../docs/tutorials/images/fields.png)
#
# ## Two summaries
#
# The first is what one would try: the power spectrum of the field in eight bins. The second adds the power spectrum of
# its logarithm. Powers are positive and skewed, so their logarithms are used, which is easier to learn and loses
# nothing. To keep the page short the fits leave out the neural likelihood (`density=None`).


# %%
def binned_power(field):
    """Average the power of a field in bins of wave number, and take the logarithm."""
    power = jnp.abs(jnp.fft.fft2(field)) ** 2 / size**2
    return jnp.log(jnp.stack([power[bins == i].mean() for i in range(num_bins)]))


def one_spectrum(key, theta):
    """Summarise the field by its power spectrum."""
    return binned_power(jnp.exp(logarithm(key, theta)))


def two_spectra(key, theta):
    """Summarise the field by its power spectrum and that of its logarithm."""
    field = jnp.exp(logarithm(key, theta))
    return jnp.concatenate([binned_power(field), binned_power(jnp.log(field))])


proposal = fs.uniform(amplitude=(0.3, 0.9), slope=(1.0, 3.0))
forecasts = []
for summary in (one_spectrum, two_spectra):
    simulator = fs.from_jax(summary)
    model = fs.fit(fs.simulate(simulator, proposal, 4_000, seed=1), recipe=fs.AutoRecipe(density=None))
    forecasts.append(fs.forecast(model, theta0, simulator))
    print(summary.__name__, f"estimated error {model.estimated_error:.3f}")
    print(forecasts[-1])
    print("bound over σ of the whole field", (forecasts[-1].sigma_bound / exact.sigma).round(2))


# %% [markdown]
# ```text
# one_spectrum estimated error 0.035
# Fisher forecast, 10,000 simulations
# parameter  value  σ plug-in       σ slope          σ bound         σ conditional
# amplitude  0.6    0.1154 ± 0.002  0.109 ± 0.0004   0.1031 ± 0.001  0.1148
# slope      2      0.2846 ± 0.003  0.2859 ± 0.0005  0.2859 ± 0.003  0.2831
# figure of merit 30.606
# bound over σ of the whole field [1.58 1.54]
# two_spectra estimated error 0.025
# Fisher forecast, 10,000 simulations
# parameter  value  σ plug-in         σ slope          σ bound           σ conditional
# amplitude  0.6    0.06854 ± 0.0007  0.06798 ± 9e-05  0.06704 ± 0.0006  0.05349
# slope      2      0.2073 ± 0.002    0.2005 ± 0.0003  0.1923 ± 0.002    0.1618
# figure of merit 90.188
# bound over σ of the whole field [1.03 1.04]
# ```
#
# The power spectrum of the field alone gives errors 1.6 times those the field allows: the exponential has moved
# information from the spectrum into higher moments. With the spectrum of the logarithm the errors are within 5 % of the
# exact ones; what is left is lost by binning, and by the error of the score.
#
# Look at the three columns, too. They differ by some ten per cent for these scores, which are not perfect. The bound is
# the one to compare, because it holds for any score: it is never more than what the summary holds, up to its own error.
# In the picture the outer ellipse is that of one spectrum, the inner one that of both.


# %%
ax = fs.plot.fisher_ellipses(forecasts, exact=[exact.matrix] * 2, estimate="bound")
fs.plot.save_figure(ax, "summaries.png")


# %% [markdown]
# ![Forecasts of two summaries and of the whole field](../docs/tutorials/images/fields_forecast.png)
#
# ## What this does not tell
#
# The bound says how much information a summary has at one θ. It cannot say how much there is in all where the exact
# answer is not known; only that a better summary has more.
#
# ## Where to go next
#
# * [The paper's experiment](../docs/tutorials/weak_lensing.md): spectra of shear as data.
# * [Many observations, and two probes](../docs/tutorials/iid_and_two_probes.md): adding independent fields.
