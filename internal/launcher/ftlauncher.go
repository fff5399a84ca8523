package launcher

import (
	"strings"
)

// ftName is the launcher of NVIDIA's resiliency extension (nvidia_resiliency_ext/fault_tolerance/launcher.py
// of 0.4.1). It has torchrun's options, those of its own begin with --ft, and its rendezvous can only be
// c10d: launch sets that right, as --keep-rdzv does, and leaves --max-restarts alone.
const (
	ftName   = "ft_launcher"
	ftModule = "nvidia_resiliency_ext.fault_tolerance.launcher"
)

// ftOptions returns torchrun's options and those of ft_launcher that do not begin with --ft.
func ftOptions() []torchOption {
	return append(torchOptionsOf(ftModule),
		table("fault_tol_cfg_path restart_policy term_timeout workers_stop_timeout", "ignore_missing_fault_tol_cfg")...)
}

// ftOption reads an option that begins with --ft: it takes a value, unless an option or a script is next.
func (p *argparser) ftOption(w, next string) (match, bool) {
	if p.title != ftName || !strings.HasPrefix(w, "--ft") {
		return match{}, false
	}
	name, value, attached := strings.Cut(w, "=")
	takes := attached || next != "" && !strings.HasPrefix(next, "-") && !strings.HasSuffix(next, ".py")
	dest := strings.ReplaceAll(strings.TrimPrefix(name, "--"), "-", "_")
	return match{option: torchOption{dest: dest, value: takes}, spelling: name, explicit: value, attached: attached}, true
}
