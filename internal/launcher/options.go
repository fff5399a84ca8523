package launcher

import "strings"

// action is what happens to an option of torchrun once the world is agreed on.
type action int

const (
	left     action = iota // stays where it is
	replaced               // removed from its place; launch's own value is right after the launcher
	merged                 // replaced, with the user's keys kept
	removed                // removed, and nothing replaces it
)

// torchOption is one option of torchrun's parser (torch/distributed/run.py). Its spellings are
// --dest with '_' and, from 2.0 on, with '-'; its variable is PET_DEST.
type torchOption struct {
	dest    string
	short   byte   // -r
	value   bool   // takes exactly one value
	since   string // first version known to have it; 1.13 is the oldest served
	only    string // the module that adds it; "" for all
	noEnv   bool   // no PET_ variable
	perNode bool   // may differ between the nodes of one job
	static  action // with a static rendezvous
	keep    action // with --keep-rdzv
}

// torchOptions returns the options of all versions from 1.13 to 2.15.
func torchOptions() []torchOption {
	return []torchOption{
		{dest: "nnodes", value: true, since: "1.13", static: replaced, keep: replaced},
		{dest: "nproc_per_node", value: true, since: "1.13"},
		{dest: "rdzv_backend", value: true, since: "1.13", static: replaced, keep: replaced},
		{dest: "rdzv_endpoint", value: true, since: "1.13", static: removed, keep: replaced},
		{dest: "rdzv_id", value: true, since: "1.13", static: replaced, keep: replaced},
		{dest: "rdzv_conf", value: true, since: "1.13", perNode: true, static: merged, keep: merged},
		{dest: "standalone", since: "1.13", static: removed, keep: removed},
		{dest: "max_restarts", value: true, since: "1.13", static: replaced},
		{dest: "monitor_interval", value: true, since: "1.13"},
		{dest: "start_method", value: true, since: "1.13"},
		{dest: "role", value: true, since: "1.13"},
		{dest: "module", short: 'm', since: "1.13"},
		{dest: "no_python", since: "1.13"},
		{dest: "run_path", since: "1.13"},
		{dest: "log_dir", value: true, since: "1.13", perNode: true},
		{dest: "redirects", short: 'r', value: true, since: "1.13", perNode: true},
		{dest: "tee", short: 't', value: true, since: "1.13", perNode: true},
		{dest: "node_rank", value: true, since: "1.13", perNode: true, static: replaced, keep: removed},
		{dest: "master_addr", value: true, since: "1.13", static: replaced, keep: removed},
		{dest: "master_port", value: true, since: "1.13", static: replaced, keep: removed},
		{dest: "local_addr", value: true, since: "2.0", perNode: true, keep: replaced},
		{dest: "use_env", since: "1.13", only: "torch.distributed.launch", noEnv: true},
		{dest: "help", short: 'h', since: "1.13", noEnv: true},
		{dest: "local_ranks_filter", value: true, since: "2.x", perNode: true},
		{dest: "log_line_prefix_template", value: true, since: "2.x"},
		{dest: "logs_specs", value: true, since: "2.x", noEnv: true},
		{dest: "event_log_handler", value: true, since: "2.x"},
		{dest: "numa_binding", value: true, since: "2.x", noEnv: true},
		{dest: "signals_to_handle", value: true, since: "2.x"},
		{dest: "virtual_local_rank", since: "2.x"},
		{dest: "duplicate_stdout_filters", value: true, since: "2.x", perNode: true},
		{dest: "duplicate_stderr_filters", value: true, since: "2.x", perNode: true},
		{dest: "shutdown_timeout", value: true, since: "2.x"},
		{dest: "print_completion", value: true, since: "2.15", noEnv: true},
	}
}

// torchOptionsOf returns the options of one entry point.
func torchOptionsOf(module string) []torchOption {
	var out []torchOption
	for _, o := range torchOptions() {
		if o.only == "" || o.only == module {
			out = append(out, o)
		}
	}
	return out
}

// spellings returns the long forms; one if they coincide.
func (o torchOption) spellings() []string {
	underscore := "--" + o.dest
	if dash := o.flag(); dash != underscore {
		return []string{dash, underscore}
	}
	return []string{underscore}
}

// flag returns the form that current documentation uses.
func (o torchOption) flag() string { return "--" + strings.ReplaceAll(o.dest, "_", "-") }

// pet returns the variable that argparse_util's env action reads.
func (o torchOption) pet() string { return "PET_" + strings.ToUpper(o.dest) }
