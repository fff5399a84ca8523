package job

import (
	"errors"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"launch/internal/finding"
	"launch/internal/launcher"
	"launch/internal/setting"
)

// decided lists the variables of the communication libraries that are set already: on mpirun's line,
// in the environment, then in the libraries' files, each in its order of precedence.
func (r *resolver) decided() {
	seen := map[string]bool{}
	add := func(all ...setting.Decided) {
		for _, d := range all {
			if setting.Library(d.Name) != "" && !seen[d.Name] && d.Name != mpirunSecret {
				seen[d.Name] = true
				r.job.Decided = append(r.job.Decided, d)
			}
		}
	}
	read := func(files []string, parse func(text, file string) []setting.Decided) {
		for _, file := range files {
			add(parse(r.conf(file), file)...)
		}
	}
	ompi, prte := parseMCA(ompiMCA), parseMCA(prteMCA)
	read(r.inEtc("openmpi-mca-params-override.conf"), ompi) // mca_base_override_param_file
	if r.line.Kind == launcher.Mpirun {
		add(onLine(r.line)...)
	}
	for _, name := range slices.Sorted(maps.Keys(r.env)) {
		add(setting.Decided{Name: name, Value: r.env[name], From: "environment"})
	}
	read(r.ncclFiles(), parseConf)
	read(r.ucxFiles(), parseUCX)
	read(r.inHome(".openmpi/mca-params.conf"), ompi) // mca_base_param_files: the user's, then the installation's
	read(r.inEtc("openmpi-mca-params.conf"), ompi)
	read(r.inHome(".prte/mca-params.conf"), prte) // PRRTE starts the processes of Open MPI 5: prte_mca_param_files
	read(r.inEtc("prte-mca-params.conf"), prte)
}

// The prefixes of parameters in the environment.
const (
	ompiMCA = "OMPI_MCA_"
	prteMCA = "PRTE_MCA_"
)

// onLine returns what an mpirun line sets: --mca NAME VALUE goes before OMPI_MCA_NAME (mpirun(1));
// -x NAME=VALUE and Hydra's -genv and -env replace an inherited variable.
func onLine(l launcher.Line) []setting.Decided {
	var out []setting.Decided
	prefix := map[string]string{"mca": ompiMCA, "gmca": ompiMCA, "omca": ompiMCA, "gomca": ompiMCA,
		"prtemca": prteMCA, "gprtemca": prteMCA, "pmixmca": "PMIX_MCA_", "gpmixmca": "PMIX_MCA_"}
	sets := []string{"x"}
	if l.Hydra() {
		prefix, sets = nil, []string{"genv", "env"}
	}
	for _, o := range l.Options {
		if p, ok := prefix[o.Name]; ok {
			name, value, _ := strings.Cut(o.Value, " ")
			out = append(out, setting.Decided{Name: p + name, Value: value, From: "mpirun --" + o.Name})
		}
		if name, value, ok := strings.Cut(o.Value, "="); ok && slices.Contains(sets, o.Name) {
			out = append(out, setting.Decided{Name: name, Value: value, From: "mpirun -" + o.Name})
		}
	}
	return out
}

// ncclFiles returns NCCL's files (src/misc/param.cc), the user's before the
// machine's: the first setting of a name wins.
func (r *resolver) ncclFiles() []string {
	var files []string
	switch own := r.env["NCCL_CONF_FILE"]; {
	case own != "":
		files = append(files, r.absolute(own))
	case r.in.Home != "":
		files = append(files, path.Join(r.in.Home, ".nccl.conf"))
	}
	return append(files, "/etc/nccl.conf")
}

// ucxFiles returns UCX's files, the one that wins first: UCX reads them in the reverse order and
// overwrites (src/ucs/config/parser.c ucs_config_parse_config_files). The directory of the build is
// /etc/ucx in distributions; HPC-X names its own.
func (r *resolver) ucxFiles() []string {
	var files []string
	for _, dir := range []string{r.in.Dir, r.env["UCX_CONFIG_DIR"], r.env["HOME"]} {
		if dir != "" {
			files = append(files, path.Join(r.absolute(dir), "ucx.conf"))
		}
	}
	if dir := r.env["HPCX_UCX_DIR"]; dir != "" {
		files = append(files, path.Join(r.absolute(dir), "etc/ucx/ucx.conf"))
	}
	return append(files, "/etc/ucx/ucx.conf")
}

// etcs returns the directories of the own files of an mpirun line's Open MPI: its
// installation's and Debian's. It is nil for another MPI.
func (r *resolver) etcs() []string {
	if r.line.Kind != launcher.Mpirun || r.line.Hydra() {
		return nil
	}
	const debian = "/etc/openmpi"
	program := r.binary(r.line.Argv[r.line.At])
	if program == "" {
		return []string{debian}
	}
	own := path.Join(path.Dir(path.Dir(program)), "etc")
	if own != "/usr/etc" { // another installation than Debian's
		return []string{own}
	}
	return []string{own, debian}
}

func (r *resolver) inEtc(name string) []string {
	return finding.Map(r.etcs(), func(dir string) string { return path.Join(dir, name) })
}

func (r *resolver) inHome(name string) []string {
	if home := r.env["HOME"]; home != "" && r.etcs() != nil {
		return []string{path.Join(home, name)}
	}
	return nil
}

func (r *resolver) absolute(name string) string {
	if path.IsAbs(name) {
		return path.Clean(name)
	}
	return path.Join("/", r.in.Dir, name)
}

// conf returns the text of a file, "" if it does not exist. It notes a missing file
// only if NCCL_CONF_FILE names it.
func (r *resolver) conf(file string) string {
	if r.in.Root == nil {
		return ""
	}
	text, err := fs.ReadFile(r.in.Root, strings.TrimPrefix(file, "/"))
	own := r.env["NCCL_CONF_FILE"]
	switch {
	case errors.Is(err, fs.ErrNotExist) && own != "" && file == r.absolute(own):
		r.note(finding.Warnf("NCCL_CONF_FILE names %s, which does not exist; NCCL does not read ~/.nccl.conf either",
			file).Named("job.nccl-conf"))
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		r.note(finding.Skipf("cannot read %s: %v", file, cause(err)).Named("job.nccl-conf"))
	}
	return string(text)
}

// parseConf parses KEY=VALUE lines as NCCL does: the first '=' splits, nothing is
// trimmed, the first of a name wins. Comments begin with '#'.
func parseConf(text, file string) []setting.Decided {
	var out []setting.Decided
	for line := range strings.Lines(text) {
		name, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		if ok && name != "" && name[0] != '#' {
			out = append(out, setting.Decided{Name: name, Value: value, From: file})
		}
	}
	return out
}

// parseUCX parses UCX's INI lines: comments begin with ';' or '#' and, after a
// value, with " ;"; the last of a name wins. A section applies to the machines that
// it names by CPU or product (ucs_config_parse_check_filter), so it is left out.
func parseUCX(text, file string) []setting.Decided {
	var out []setting.Decided
	for line := range strings.Lines(strings.TrimPrefix(text, "\ufeff")) {
		line = strings.TrimSpace(line)
		if line != "" && line[0] == '[' {
			break
		}
		at := strings.IndexAny(line, "=:")
		if at <= 0 || line[0] == ';' || line[0] == '#' {
			continue
		}
		value, _, _ := strings.Cut(line[at+1:], " ;")
		out = put(out, setting.Decided{Name: strings.TrimSpace(line[:at]), Value: strings.TrimSpace(value), From: file})
	}
	return out
}

// put adds a setting in place of an earlier one of its name.
func put(all []setting.Decided, d setting.Decided) []setting.Decided {
	return append(slices.DeleteFunc(all, func(o setting.Decided) bool { return o.Name == d.Name }), d)
}

// parseMCA returns a parser of the "name = value" lines of Open MPI (opal/util/keyval/keyval_lex.l) and PRRTE; the
// last of a name wins. prefix makes the name of the variable.
func parseMCA(prefix string) func(text, file string) []setting.Decided {
	return func(text, file string) (out []setting.Decided) {
		for line := range strings.Lines(uncommented(text)) {
			name, value, ok := strings.Cut(line, "=")
			name = strings.TrimSpace(name)
			if !ok || name == "" || strings.ContainsAny(name, " \t#/") {
				continue
			}
			value = strings.Trim(strings.TrimSpace(value), `"'`)
			out = put(out, setting.Decided{Name: prefix + name, Value: value, From: file})
		}
		return out
	}
}

// uncommented returns a text without comments of the form /* */, which begin before a name: in a value they are text.
func uncommented(text string) string {
	var b strings.Builder
	for text != "" {
		text = strings.TrimLeft(text, " \t\f\v\n")
		if after, ok := strings.CutPrefix(text, "/*"); ok {
			_, text, _ = strings.Cut(after, "*/")
			continue
		}
		line, rest, _ := strings.Cut(text, "\n")
		b.WriteString(line + "\n")
		text = rest
	}
	return b.String()
}
