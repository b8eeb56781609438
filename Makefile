# Each target calls one command; `make` alone lists them.
# Recipes source tools/env.sh, which sets the data and home folders.
SHELL := /bin/sh
.NOTPARALLEL:
.PHONY: help setup lab test run slides bench doctor data figures book student grade pack sheet lock clean

PYTHON := . tools/env.sh && exec .venv/bin/python
# $(call with,LAB_ARGS): Python, with the words of LAB_ARGS added to the end of its command line.
with = $(PYTHON) -I -S tools/split_arguments.py $(1) --
# Without MXNet, begin with PyTorch's chapters. Evaluated when used, that is after `setup`.
ONLY = $(filter only,$(shell cat .uv/torch 2>/dev/null))
FIRST = notebooks/$(if $(ONLY),05-multiple-gpus-pytorch,01-multiple-gpus-scratch).ipynb
# JupyterLab runs as root only with this option; in a container, root is often the only user.
ROOT_OK := $(shell [ "$$(id -u)" != 0 ] || echo --allow-root)
# Seconds after which a cell counts as hung; the longest takes under two minutes.
CELL_TIMEOUT := 900
# Variables of the command line are passed to the tools by the environment, unexpanded:
# make test PYTEST_ARGS="-k 'ring or tree'"
VARIABLES := GPU TORCH PDF SERVE FROM ROSTER SET DUE WEEK UPGRADE SLOW CHAPTER SESSION TESTS CELL_TIMEOUT \
    PYTEST_ARGS LAB_ARGS RUN_ARGS BENCH_ARGS DOCTOR_ARGS DATA_ARGS
$(foreach name,$(VARIABLES),$(eval override $(name) := $$(value $(name))))
export $(VARIABLES)

help: ## this list
	@sed -n 's/^\([a-z]*\):[^#]*## \(.*\)/  make \1	\2/p' Makefile | expand -t 16

setup: ## make the environment in .venv (GPU=1: for NVIDIA GPUs; GPU=0: for CPUs; TORCH=0: no PyTorch)
	@sh tools/setup.sh

lab: setup ## open JupyterLab at the first chapter (LAB_ARGS=--no-browser and the like)
	@$(call with,LAB_ARGS) -m jupyterlab $(ROOT_OK) --config=tools/lab/config.py --LabApp.default_url=/lab/tree/$(FIRST)

test: setup ## run the tests, and the notebooks through nbval (TESTS=FILE; SLOW=1; PYTEST_ARGS)
	@sh tools/test.sh

run: setup ## execute the notebooks into build/ (CHAPTER=1: one of them)
	@$(call with,RUN_ARGS) tools/run_notebooks.py --timeout "$$CELL_TIMEOUT" $(if $(CHAPTER),--chapter "$$CHAPTER")

slides: setup ## write slides for a lecture into build/slides/ (SESSION='five weeks 1': a session of the plan; CHAPTER=1: a chapter)
	@$(PYTHON) tools/slides.py $(if $(CHAPTER),--chapter "$$CHAPTER") $(if $(SESSION),--session "$$SESSION")

bench: setup ## measure against what one would use instead (BENCH_ARGS)
	@$(call with,BENCH_ARGS) -m benchmarks

# Without `setup`: doctor is for broken environments, too.
doctor: ## what can this machine do, and which command mends what is wrong? (DOCTOR_ARGS)
	@[ -x .venv/bin/python ] || { echo 'doctor: there is no environment in .venv yet. What to do: make setup' >&2; exit 1; }
	@( $(PYTHON) -c 'import mgpu_helpers.doctor' ) 2>/dev/null || \
	    { echo 'doctor: .venv is not finished, or broken. What to do: rm -rf .venv && make setup' >&2; exit 1; }
	@$(call with,DOCTOR_ARGS) -m mgpu_helpers doctor

data: setup ## fetch and verify the data sets ahead of a class (DATA_ARGS='--from DIR': from a stick)
	@$(call with,DATA_ARGS) -m mgpu_helpers data

figures: setup ## draw img/*.svg anew
	@$(PYTHON) img/src/all.py

book: ## make the site of the chapters, to be read, in build/book/site (SERVE=1: and serve it; PDF=1: and on paper; needs Chromium)
	@sh tools/book.sh

student: setup ## write the students' version of the exercises: blanks for solutions
	@$(PYTHON) tools/student.py

grade: ## grade the submissions below a folder (FROM=folder; ROSTER, SET, DUE, WEEK)
	@$(if $(FROM),,echo "grade: which folder has the submissions? make grade FROM=handed-in"; exit 2)
	@$(PYTHON) tools/grade.py "$$FROM" \
	    $(if $(ROSTER),--roster "$$ROSTER") $(if $(SET),--set "$$SET") $(if $(DUE),--due "$$DUE") $(if $(WEEK),--week "$$WEEK")

# What git has, changes that are not committed included, but for what is the teacher's.
KEPT_BACK := README.md tests benchmarks .github .ci exercises/[0-9]*.ipynb exercises/puzzles.ipynb exercises/misconceptions exercises/student/README.md \
    $(addprefix exercises/teaching/,guide.md forty.md exams.md plan.yml)
pack: ## pack what students get, without solutions, into build/course.tar.gz
	@mkdir -p build
	@sed 's,](../../,](,g; s,](../,](exercises/,g' exercises/student/README.md >build/README.md
	@git archive --prefix=course/ --add-file=build/README.md --output=build/course.tar.gz \
	    "$$(git -c user.name=pack -c user.email=pack stash create | grep . || echo HEAD)" \
	    -- $(KEPT_BACK:%=':!%')
	@echo build/course.tar.gz

sheet: ## print a chapter's sheet for the teacher: what to ask, the answers, common mistakes (CHAPTER=3; test: the entry test)
	@$(if $(CHAPTER),,echo "sheet: of which chapter? make sheet CHAPTER=3"; exit 2)
	@$(PYTHON) tools/teaching_plan.py "$$CHAPTER"

lock: ## resolve pyproject.toml into the locks (UPGRADE=1: newest versions)
	@sh tools/lock.sh

clean: ## remove what was made here: environment, build/, caches (not the data)
	rm -rf .venv .venv-torch .venv-book .uv build dist .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
