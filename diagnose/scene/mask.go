package scene

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// placed are the variables that place a process in its job, or say how it is to communicate. Their
// values are shown.
var placed = map[string]bool{
	"HOSTNAME": true, "RANK": true, "LOCAL_RANK": true, "WORLD_SIZE": true, "LOCAL_WORLD_SIZE": true, "GROUP_RANK": true,
	"GROUP_WORLD_SIZE": true, "ROLE_RANK": true, "ROLE_WORLD_SIZE": true, "NODE_RANK": true, "MASTER_ADDR": true,
	"MASTER_PORT": true, "TORCHELASTIC_RUN_ID": true, "TORCHELASTIC_USE_AGENT_STORE": true,
	"TORCHELASTIC_RESTART_COUNT": true, "TORCHELASTIC_MAX_RESTARTS": true, "TORCH_DISTRIBUTED_DEBUG": true,
	"TORCH_CPP_LOG_LEVEL": true, "TORCH_GLOO_LAZY_INIT": true, "TORCH_DIST_INIT_BARRIER": true, "PYTHONHASHSEED": true,
	"LAUNCH_JOB": true, "LAUNCH_NNODES": true, "LAUNCH_CHILD": true, "PET_NNODES": true, "PET_NODE_RANK": true,
	"PET_NPROC_PER_NODE": true, "PET_RDZV_ENDPOINT": true, "PET_RDZV_BACKEND": true, "PET_RDZV_ID": true,
	"PET_MASTER_ADDR": true, "PET_MASTER_PORT": true, "PMI_RANK": true, "PMI_SIZE": true, "PMIX_RANK": true,
	"SLURM_PROCID": true, "SLURM_LOCALID": true, "SLURM_NODEID": true, "SLURM_NTASKS": true, "SLURM_NNODES": true,
	"SLURM_JOB_ID": true, "SLURM_STEP_ID": true, "CUDA_VISIBLE_DEVICES": true,
}

// families are beginnings of names that are shown too, unless the name looks like that of a secret.
var families = []string{"GLOO_", "NCCL_", "TORCH_NCCL_", "OMPI_COMM_WORLD_"}

// secretName matches names of options and variables whose value must not be shown.
var secretName = regexp.MustCompile(
	`(?i)(token([^a-z]|$)|passw|passphrase|secret|credential|api[-_]?key|access[-_]?key|` +
		`private[-_]?key|(^|[-_])auth|bearer|cookie|(^|[-_])pass($|[-_])|(^|[-_])(pwd|key)$)`,
)

// userinfo matches the name and password of a URL.
var userinfo = regexp.MustCompile(`(://)[^/@\s]*@`)

const (
	masked     = "***"
	maxArgv    = 4 << 10
	maxValue   = 512
	maxEnviron = 256
)

// split returns the texts of cmdline or environ, which end with a zero byte.
func split(b []byte) []string {
	text := strings.TrimRight(string(b), "\x00")
	if text == "" {
		return nil
	}
	return strings.Split(text, "\x00")
}

// variables returns an environment as a map; of equal names the first counts, as for getenv.
func variables(environ []byte) map[string]string {
	env := map[string]string{}
	for _, kv := range split(environ) {
		k, v, ok := strings.Cut(kv, "=")
		if _, twice := env[k]; ok && !twice {
			env[k] = v
		}
	}
	return env
}

// shown returns those variables that are of use and no secrets.
func shown(env map[string]string) map[string]string {
	out := map[string]string{}
	for k, v := range env {
		ok := placed[k]
		for _, f := range families {
			ok = ok || strings.HasPrefix(k, f) && !secretName.MatchString(k)
		}
		if ok && len(k) <= maxValue && len(out) < maxEnviron {
			out[clean(k, maxValue)] = clean(userinfo.ReplaceAllString(v, "${1}"+masked+"@"), maxValue)
		}
	}
	return out
}

// conceal returns a command line without what may be secret: the values of options and variables with such
// a name, and names in URLs.
func conceal(argv []string) []string {
	var out []string
	size, hide := 0, false
	for _, a := range argv {
		if size += len(a) + 1; size > maxArgv {
			return append(out, "…")
		}
		name, _, assigned := strings.Cut(a, "=")
		option := strings.HasPrefix(a, "-") || assigned
		secret := option && secretName.MatchString(name) && !strings.ContainsAny(name, " \t\n")
		switch {
		case hide && !strings.HasPrefix(a, "-"):
			a = masked
		case secret && assigned:
			a = name + "=" + masked
		case strings.ContainsAny(a, " \n") && secretName.MatchString(a): // a script: bash -c "…"
			a = masked
		}
		hide = secret && !assigned
		out = append(out, clean(userinfo.ReplaceAllString(a, "${1}"+masked+"@"), maxArgv))
	}
	return out
}

// clean returns text on one line, without control characters and invalid bytes, of at most max bytes.
func clean(text string, max int) string {
	text = text[:min(len(text), max)]
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t' || r == '\n':
			return ' '
		case r == utf8.RuneError || !unicode.IsPrint(r):
			return -1
		}
		return r
	}, text)
}
