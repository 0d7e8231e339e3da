"""The tutorial docs/tutorials/external_program.md as a script; made from it by docs/to_script.py."""

# %% [markdown]
# # Your simulator is a program
#
# At the end of this page you have run a program a thousand times in a campaign that survives interruptions, and have
# the posterior of an observation. Reading takes ten minutes; running takes one to two minutes on two cores.
#
# Any program will do that reads parameters from one file and writes an array to another. Here it is a shell script,
# `examples/decay.sh` of the repository, that counts the decays of a source in six time bins.
#
# ## What the program is given, and what it must do
#
# `fs.from_command` takes a list of words. No shell is involved, so nothing in a path or a parameter's name is ever
# executed. Three places are filled in for every run:
#
# | place | what stands there |
# |---|---|
# | `{input}` | a JSON file, `{"theta": {"amplitude": 40.0, "lifetime": 1.2}, "seed": 7}` |
# | `{output}` | the `.npy` file the program must write: one array of numbers, always of the same shape |
# | `{seed}` | the seed again, for programs that would rather not read JSON |
#
# With `input_format="npy"` the input is an array of the parameters, in the order of the proposal.
#
# The program must take all its randomness from the seed. Then a run that was lost can be repeated, and the data of a
# campaign do not depend on how it was run. Every run has a private folder, in which the program starts and which is
# removed afterwards; files it needs are best named by absolute paths.
#
# ## Look before you simulate
#
# ```sh
# fisherscore check-simulator -p amplitude=20:80 -p lifetime=0.5:2 --num-simulations 1000 -- \
#     examples/decay.sh "{input}" "{output}" "{seed}"
# ```
#
# runs it a few times and says whether it works, whether the same seed gives the same data, what it returns, and what
# the campaign will cost. The same in Python is `fs.check_simulator`.
#
# ## A campaign

# %%
import fisherscore as fs

simulator = fs.from_command(["examples/decay.sh", "{input}", "{output}", "{seed}"], timeout=10.0)
proposal = fs.uniform(amplitude=(20.0, 80.0), lifetime=(0.5, 2.0))
sims = fs.simulate(simulator, proposal, 1_000, out="runs/decay/campaign", workers=2)


# %% [markdown]
# or, with no Python at all,
#
# ```sh
# fisherscore simulate -p amplitude=20:80 -p lifetime=0.5:2 --num-simulations 1000 --timeout 10 --workers 2 \
#     --out runs/decay/campaign -- examples/decay.sh "{input}" "{output}" "{seed}"
# ```
#
# Kill it, lose power, press Ctrl-C: the same call goes on where it was, and the data are those of a run that was never
# disturbed. Run after the Python above, the command finds everything done. A larger number adds to what is there.
# `memory=4` limits each run to four gigabytes. From another terminal too,
#
# ```sh
# fisherscore status runs/decay/campaign
# ```
#
# says how far it is.
#
# A run that fails is kept with its parameters, its seed, its kind and the end of what it printed, and never repeated
# with another seed, which would bias the score:
#
# | kind | what happened |
# |---|---|
# | `nonzero_exit`, `signal` | the program ended with an error, or was ended by a fault of its own |
# | `timeout` | it took too long, and was killed with everything it had started |
# | `bad_output`, `nonfinite` | it wrote no array, or one of another shape; or NaN or infinite values |
# | `raised` | a Python function raised an error |
# | `lost` | its worker was killed from outside three times |
#
# `fs.fit` refuses above 1 % failures unless told otherwise. Failures that depend on the parameters alone are made up
# for. Failures that depend on the data cannot be: nobody knows what the lost data would have been.
#
# ## From there to a posterior


# %%
model = fs.fit(sims)
posterior = fs.sample(model, [12, 10, 7, 5, 3, 2])
print(posterior)


# %% [markdown]
# ```text
# NUTS (exact log-likelihood of the model), 4,000 draws, 0 divergent
# parameter  mean   sd       16 %    84 %    R-hat  ESS
# amplitude  46.06  7.7881   38.332  53.776  1.000  2809
# lifetime   1.509  0.28578  1.1972  1.8387  1.003  1615
# no problem found
# ```
#
# How to check the model first is shown in [Your own simulator](../docs/tutorials/own_simulator.md).
#
# ## On a cluster
#
# * **A job array**, with no daemon at all: job k of n runs `fisherscore simulate ... --out shard-$k --shard $k/$n`, or
#   `fs.simulate(..., out=f"shard-{k}", shard=f"{k}/{n}")`; afterwards `fisherscore merge runs/all shard-*`.
# * **Dask**: `--dask ADDRESS`, or `fs.simulate(..., dask=client)` (`pip install "fisherscore[dask]"`).
#
# All of them give the same data, to the last bit.
#
# ## For other programs
#
# ```sh
# fisherscore export runs/decay/campaign decays.npz
# ```
#
# writes the simulations to one file, and `fs.import_simulations` reads it back. A name ending in `.h5` makes it HDF5
# (`pip install "fisherscore[hdf5]"`).
#
# ## Where to go next
#
# * [Your own simulator](../docs/tutorials/own_simulator.md): checks, priors and forecasts.
# * [Simulations that already exist](../docs/tutorials/existing_simulations.md): a table of parameters and data.
