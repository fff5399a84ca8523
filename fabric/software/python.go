package software

import (
	"cmp"
	"path"
	"regexp"
	"slices"
	"strings"
)

var (
	pythonName = regexp.MustCompile(`^python(?:3(?:\.\d+t?)?)?$`)
	// versioned matches the name of an interpreter, or of its directory of modules.
	versioned = regexp.MustCompile(`^python(3\.\d+t?)$`)
	// trampoline matches the second line of scripts of pip, uv and conda with a long interpreter path.
	trampoline = regexp.MustCompile(`(?m)^'''exec' (?:"([^"\n]+)"|'([^'\n]+)'|(\S+)) "\$0"`)
	// assigned matches a line of torch/version.py or pyvenv.cfg.
	assigned = regexp.MustCompile(`(?m)^([\w-]+)(?:[ \t]*:[^=\n]*)?[ \t]*=[ \t]*` +
		`(?:'([^'\n]*)'|"([^"\n]*)"|([^'"\s][^\n]*?))[ \t\r]*$`)
)

// interpreter returns the Python that runs the program: itself, or the one in its first line. If there
// is none, program is its file; both are "" if the environment of a prefix is unknown.
func (d detector) interpreter() (python, program string) {
	search := strings.Split(d.env("PATH"), ":")
	env, makes := d.environment()
	if makes {
		if env == "" {
			return "", ""
		}
		search = append([]string{path.Join(env, "bin")}, search...)
	}
	name := d.cmd.Program
	if makes && strings.HasSuffix(name, ".py") { // uv run train.py
		if strings.Contains(d.text(d.absolute(name)), "# /// script") { // has an environment of its own (PEP 723)
			return "", ""
		}
		name = "python"
	}
	for range 4 { // as deep as the kernel goes
		file := d.lookPath(name, search)
		if real, is := d.shimmed(file, search); is {
			file = real
		}
		if file == "" {
			return "", ""
		}
		if pythonName.MatchString(path.Base(file)) {
			return file, ""
		}
		if name = shebang(d.text(file)); name == "" {
			return "", file
		}
	}
	return "", ""
}

// lookPath finds a program. It does not follow links: the path of a venv's python identifies it.
func (d detector) lookPath(name string, search []string) string {
	if strings.Contains(name, "/") {
		search = []string{""}
	}
	for _, dir := range search {
		file := path.Join(dir, name)
		if !path.IsAbs(file) {
			file = path.Join(d.cmd.Dir, file)
		}
		if _, m, ok := d.resolve(file); ok && m.IsRegular() && m&0o111 != 0 {
			return file
		}
	}
	return ""
}

// shebang returns the interpreter of a Python script, after env(1) and a trampoline; else "".
func shebang(text string) string {
	first, rest, _ := strings.Cut(text, "\n")
	line, ok := strings.CutPrefix(first, "#!")
	if !ok {
		return ""
	}
	if m := trampoline.FindStringSubmatch(rest); m != nil && path.Base(strings.TrimSpace(line)) == "sh" {
		return m[1] + m[2] + m[3]
	}
	words := strings.Fields(line)
	if len(words) > 1 && path.Base(words[0]) == "env" {
		words = slices.DeleteFunc(words[1:], func(w string) bool {
			return strings.HasPrefix(w, "-") || strings.Contains(w, "=")
		})
	}
	if len(words) == 0 || !pythonName.MatchString(path.Base(words[0])) {
		return ""
	}
	return words[0]
}

// python returns an interpreter's version and its directories of packages, in order (Lib/site.py).
func (d detector) python(file string) (version string, sites []string) {
	for p := range strings.SplitSeq(d.env("PYTHONPATH"), ":") {
		if p != "" {
			sites = append(sites, d.absolute(p))
		}
	}
	user := d.env("PYTHONNOUSERSITE") == ""
	prefix := path.Dir(path.Dir(file))
	cfg := d.text(path.Join(prefix, "pyvenv.cfg"))
	if cfg == "" {
		cfg = d.text(path.Join(path.Dir(file), "pyvenv.cfg"))
	}
	if cfg == "" { // not a venv: next to the program itself
		real, _, _ := d.resolve(file)
		prefix = path.Dir(path.Dir(real))
		version = d.named(path.Base(real), prefix)
		return version, append(sites, d.sites(prefix, version, user)...)
	}
	set := assignments(cfg)
	// uv and virtualenv have version_info.
	version = cmp.Or(set["version"], strings.TrimSuffix(set["version_info"], ".final.0"))
	minor := shorter(version)
	system := strings.EqualFold(set["include-system-site-packages"], "true")
	if user && system {
		sites = append(sites, d.userSite(minor))
	}
	sites = append(sites, d.sites(prefix, minor, false)...)
	if system && set["home"] != "" {
		sites = append(sites, d.sites(path.Dir(set["home"]), minor, false)...)
	}
	return version, sites
}

// named returns the version in an interpreter's name, or the only one for which its prefix has modules.
func (d detector) named(base, prefix string) string {
	if m := versioned.FindStringSubmatch(base); m != nil {
		return m[1]
	}
	var found []string
	for _, name := range d.names(path.Join(prefix, "lib")) {
		if m := versioned.FindStringSubmatch(name); m != nil {
			found = append(found, m[1])
		}
	}
	if len(found) != 1 {
		return ""
	}
	return found[0]
}

func (d detector) sites(prefix, minor string, user bool) (dirs []string) {
	if minor == "" {
		return nil
	}
	if user {
		dirs = append(dirs, d.userSite(minor))
	}
	py := "python" + minor
	if prefix == "/usr" {
		dirs = append(dirs, "/usr/local/lib/"+py+"/dist-packages", "/usr/local/lib/"+py+"/site-packages",
			"/usr/local/lib64/"+py+"/site-packages")
	}
	return append(dirs, path.Join(prefix, "lib", py, "site-packages"), path.Join(prefix, "lib64", py, "site-packages"),
		path.Join(prefix, "lib/python3/dist-packages"), path.Join(prefix, "lib", py, "dist-packages"))
}

func (d detector) userSite(minor string) string {
	base := cmp.Or(d.env("PYTHONUSERBASE"), path.Join(d.cmd.Home, ".local"))
	return path.Join(base, "lib", "python"+minor, "site-packages")
}

// torch reads the first torch found.
func (d detector) torch(f *Facts, sites []string) {
	for _, site := range sites {
		file := path.Join(site, "torch/version.py")
		text := d.text(file)
		if text == "" {
			continue
		}
		set := assignments(text)
		f.Torch = Item{Version: set["__version__"], Path: path.Join(site, "torch")}
		f.CUDA, f.HIP = strings.TrimPrefix(set["cuda"], "None"), strings.TrimPrefix(set["hip"], "None")
		if f.CUDA != "" || f.HIP != "" {
			f.NCCL = d.torchNCCL(path.Join(site, "torch/lib"), site)
		}
		return
	}
}

// assignments returns the NAME = VALUE lines of a text; for torch/version.py, only constants.
func assignments(text string) map[string]string {
	out := map[string]string{}
	for _, m := range assigned.FindAllStringSubmatch(text, -1) {
		out[m[1]] = m[2] + m[3] + m[4]
	}
	return out
}

// shorter returns the first two numbers of a version: "3.11" of "3.11.7".
func shorter(version string) string {
	major, rest, _ := strings.Cut(version, ".")
	minor, _, ok := strings.Cut(rest, ".")
	if major == "" || minor == "" || !ok && rest == "" {
		return ""
	}
	return major + "." + minor
}

func (d detector) absolute(p string) string {
	if path.IsAbs(p) {
		return p
	}
	return path.Join(d.cmd.Dir, p)
}
