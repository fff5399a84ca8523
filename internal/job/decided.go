package job

import (
	"errors"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"launch/envgen"
	"launch/internal/finding"
)

// deciding are the variables of the communication libraries; one that stands
// anywhere is the user's decision.
func deciding(name string) bool {
	if name == "TP_SOCKET_IFNAME" {
		return true
	}
	for _, p := range []string{"NCCL_", "GLOO_", "UCX_", "FI_", "OMPI_MCA_"} {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return false
}

// decided lists what is set already: the environment first, then NCCL's
// files, in the order in which NCCL lets them win (src/misc/param.cc: setenv
// without overwriting, the user's file before /etc/nccl.conf).
func (r *resolver) decided() {
	seen := map[string]bool{}
	add := func(d envgen.Decided) {
		if deciding(d.Name) && !seen[d.Name] {
			seen[d.Name] = true
			r.job.Decided = append(r.job.Decided, d)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.env)) {
		add(envgen.Decided{Name: name, Value: r.env[name], From: "environment"})
	}
	for _, file := range r.ncclFiles() {
		for _, d := range r.readConf(file) {
			add(d)
		}
	}
}

func (r *resolver) ncclFiles() []string {
	var files []string
	switch own := r.env["NCCL_CONF_FILE"]; {
	case own != "" && !path.IsAbs(own):
		files = append(files, path.Join("/", r.in.Dir, own))
	case own != "":
		files = append(files, own)
	case r.in.Home != "":
		files = append(files, path.Join(r.in.Home, ".nccl.conf"))
	}
	return append(files, "/etc/nccl.conf")
}

func (r *resolver) readConf(file string) []envgen.Decided {
	if r.in.Root == nil {
		return nil
	}
	text, err := fs.ReadFile(r.in.Root, strings.TrimPrefix(path.Clean(file), "/"))
	named := r.env["NCCL_CONF_FILE"] != "" && file != "/etc/nccl.conf"
	switch {
	case errors.Is(err, fs.ErrNotExist) && named:
		r.note(finding.Warnf("NCCL_CONF_FILE names %s, which does not exist; ~/.nccl.conf is not read either", file).Named("job.nccl-conf"))
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		r.note(finding.Skipf("cannot read %s: %v", file, cause(err)).Named("job.nccl-conf"))
	}
	return parseConf(string(text), file)
}

// parseConf reads NCCL's KEY=VALUE lines as NCCL does: the first '=' splits,
// nothing is trimmed, the first of a name counts. Comments begin with '#'.
func parseConf(text, file string) []envgen.Decided {
	var out []envgen.Decided
	for line := range strings.Lines(text) {
		name, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		if ok && name != "" && name[0] != '#' {
			out = append(out, envgen.Decided{Name: name, Value: value, From: file})
		}
	}
	return out
}
