# A machine with an NVIDIA GPU: `docker build -t worldfork . && docker run --gpus all -v $PWD/runs:/studies worldfork run demo -o demo`
# CUDA's libraries come with jax's own wheels, so a driver on the host is all that is needed. OSMesa renders videos without
# a display.
FROM python:3.12-slim

RUN apt-get update -qq \
 && apt-get install -y -qq --no-install-recommends libosmesa6 \
 && rm -rf /var/lib/apt/lists/*

WORKDIR /opt/worldfork
# The pinned packages first: they change less often than the source. CUDA's are those that the pinned jax asks for.
COPY requirements/dev.txt requirements/dev.txt
RUN python -m pip install --no-cache-dir --no-deps --require-hashes -r requirements/dev.txt \
 && python -m pip install --no-cache-dir "jax[cuda13]==$(sed -n "s/^jax==\([0-9.]*\) ; python_full_version >= '3.12'.*/\1/p" requirements/dev.txt)"
COPY . .
RUN python -m pip install --no-cache-dir --no-deps --no-build-isolation .

# Physics must not look for a window, and one thread per process keeps results apart from thread counts.
ENV MUJOCO_GL=osmesa OMP_NUM_THREADS=1 XLA_PYTHON_CLIENT_PREALLOCATE=false
RUN useradd --create-home forker
USER forker
WORKDIR /studies
ENTRYPOINT ["worldfork"]
CMD ["--help"]
