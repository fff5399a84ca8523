package software

import (
	"cmp"
	"path"
	"slices"
	"strings"
)

// environment returns the Python environment into which a prefix such as uv run puts
// the program. makes is false if no prefix makes one; dir is "" if it is unknown which.
func (d detector) environment() (dir string, makes bool) {
	for i, w := range d.cmd.Before {
		rest := d.cmd.Before[i+1:]
		if !slices.Contains(rest, "run") {
			continue
		}
		switch path.Base(w) {
		case "uv":
			dir = d.uv(rest)
		case "conda", "mamba", "micromamba":
			dir = d.conda(w, rest)
		case "poetry": // uses the active environment, as the variable says
			if dir = d.env("VIRTUAL_ENV"); dir == "" {
				dir = d.inProject(rest, "-C", "--directory", "-P", "--project")
			}
		case "pixi":
			dir = d.pixi(rest)
		case "pipenv", "hatch":
			dir = d.inProject(rest)
		default:
			continue
		}
		return dir, true
	}
	return "", false
}

// uv follows uv's order: the project's .venv; without a project, the active environment or the nearest
// .venv. What it would make for only this run, or which interpreter it would choose, is unknown.
func (d detector) uv(words []string) string {
	for _, w := range words {
		name, _, _ := strings.Cut(w, "=")
		if slices.Contains([]string{"--isolated", "--with", "--with-editable", "--with-requirements", "--python", "-p",
			"--no-project", "--script", "-s"}, name) {
			return ""
		}
	}
	if slices.Contains(words, "--active") && d.env("VIRTUAL_ENV") != "" {
		return d.env("VIRTUAL_ENV")
	}
	start := d.start(words, "--project", "--directory")
	for _, dir := range upwards(start) {
		if !d.file(path.Join(dir, "pyproject.toml")) {
			continue
		}
		own := cmp.Or(d.env("UV_PROJECT_ENVIRONMENT"), ".venv")
		if !path.IsAbs(own) {
			own = path.Join(dir, own)
		}
		return d.venv(own)
	}
	if active := cmp.Or(d.env("VIRTUAL_ENV"), d.env("CONDA_PREFIX")); active != "" {
		return active
	}
	for _, dir := range upwards(start) {
		if env := d.venv(path.Join(dir, ".venv")); env != "" {
			return env
		}
	}
	return ""
}

// conda returns the given prefix or name, or the active environment.
func (d detector) conda(program string, words []string) string {
	if p, ok := option(words, "-p", "--prefix"); ok {
		return d.absolute(p)
	}
	name, ok := option(words, "-n", "--name")
	if !ok {
		return d.env("CONDA_PREFIX")
	}
	root := d.env("MAMBA_ROOT_PREFIX")
	if exe := d.env("CONDA_EXE"); root == "" && exe != "" {
		root = path.Dir(path.Dir(exe))
	}
	if root == "" && path.IsAbs(program) {
		root = path.Dir(path.Dir(program))
	}
	var places []string
	if root != "" && name == "base" {
		places = append(places, root)
	} else if root != "" {
		places = append(places, path.Join(root, "envs", name))
	}
	for _, dir := range append(places, path.Join(d.cmd.Home, ".conda/envs", name)) {
		if _, m, ok := d.resolve(dir); ok && m.IsDir() {
			return dir
		}
	}
	return ""
}

// pixi returns the named or default environment of the nearest workspace.
func (d detector) pixi(words []string) string {
	name, ok := option(words, "-e", "--environment")
	if !ok {
		name = cmp.Or(d.env("PIXI_ENVIRONMENT_NAME"), "default")
	}
	start := d.start(words, "--manifest-path", "-m")
	if d.file(start) {
		start = path.Dir(start)
	}
	for _, dir := range upwards(start) {
		env := path.Join(dir, ".pixi/envs", name)
		if _, m, ok := d.resolve(env); ok && m.IsDir() {
			return env
		}
	}
	return ""
}

// inProject returns the .venv in the project's own folder; only the tool knows its other places.
func (d detector) inProject(words []string, directory ...string) string {
	return d.venv(path.Join(d.start(words, directory...), ".venv"))
}

// start returns the folder that an option names, else the working directory.
func (d detector) start(words []string, names ...string) string {
	if dir, ok := option(words, names...); ok {
		return d.absolute(dir)
	}
	return d.cmd.Dir
}

// venv returns a folder if it is a venv, else "".
func (d detector) venv(dir string) string {
	if d.file(path.Join(dir, "pyvenv.cfg")) {
		return dir
	}
	return ""
}

// upwards returns a folder and all above it.
func upwards(dir string) []string {
	out := []string{dir}
	for dir != "/" && dir != "." {
		dir = path.Dir(dir)
		out = append(out, dir)
	}
	return out
}

// option returns the value of the first of the options that is present.
func option(words []string, names ...string) (string, bool) {
	for i, w := range words {
		name, value, attached := strings.Cut(w, "=")
		switch {
		case !slices.Contains(names, name):
		case attached:
			return value, true
		case i+1 < len(words):
			return words[i+1], true
		}
	}
	return "", false
}
