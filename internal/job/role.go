package job

import (
	"regexp"
	"strconv"
	"strings"

	"launch/internal/exit"
	"launch/internal/setting"
)

// After is what a node waits for before its command starts: that all nodes of another role listen on a TCP port.
type After struct {
	Role string `json:"role"`
	Port int    `json:"port"`
}

// String returns it as --after takes it.
func (a After) String() string { return a.Role + ":" + strconv.Itoa(a.Port) }

// roleName is what a role may be called: a name that a Kubernetes object may have too, and of which a variable's
// name can be made without two roles becoming one.
var roleName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,30}$`)

// RoleVariable returns the name of a variable about a role: "prefill" and "ADDR" are ROLE_PREFILL_ADDR.
func RoleVariable(role, what string) string {
	return "ROLE_" + strings.ToUpper(strings.ReplaceAll(role, "-", "_")) + "_" + what
}

// autoRole stands for the role that the scheduler gives this node, so that the lines of all roles may be one.
const autoRole = "auto"

// schedulersRole returns the name of the group of pods to which this one belongs, as a role.
func schedulersRole(name, from string) claim {
	return scheduled(strings.ToLower(strings.ReplaceAll(name, "_", "-")), from)
}

// role resolves --role and --after.
func (r *resolver) role() error {
	f := r.in.Flags
	if f.Role.V == autoRole {
		if !r.sched.role.Set {
			return claim(f.Role).refuse("--role prefill", "no scheduler gives this node a role; in a pod of a JobSet "+
				"REPLICATED_JOB_NAME does, from an annotation")
		}
		f.Role = setting.Value[string](r.sched.role)
	}
	r.job.Role = f.Role
	if !f.Role.Set {
		if len(f.After) > 0 {
			return exit.Errorf(exit.Usage, "--after %s needs a --role for this node", f.After[0]).
				Do("--role NAME --after %s   # all nodes of the job have a role", f.After[0])
		}
		return nil
	}
	if !roleName.MatchString(f.Role.V) {
		return claim(f.Role).refuse("--role prefill",
			"a role is up to 31 lower-case letters, digits and dashes, and begins with a letter")
	}
	for _, text := range f.After {
		a, err := parseAfter(text)
		if err != nil {
			return err
		}
		if a.Role == f.Role.V {
			return exit.Errorf(exit.Usage, "--after %s waits for this node's own role", text).
				Do("name the role of the nodes that start first")
		}
		r.job.After = append(r.job.After, a)
	}
	return r.roleFits()
}

// parseAfter parses ROLE:PORT.
func parseAfter(text string) (After, error) {
	role, digits, _ := strings.Cut(text, ":")
	port, err := strconv.Atoi(digits)
	if !roleName.MatchString(role) || err != nil || port < 1 || port > 65535 {
		return After{}, exit.Errorf(exit.Usage, "--after %q is not ROLE:PORT", text).
			Do("--after target:12345   # the port on which the nodes of that role listen once they are ready")
	}
	return After{role, port}, nil
}

// roleFits refuses roles where the nodes of a job are interchangeable, or are not known to be of one job.
func (r *resolver) roleFits() error {
	role := claim(r.job.Role).String()
	switch j := r.job; {
	case !j.Several():
		return contradiction("--nnodes N, the number of nodes of all roles together",
			"%s, but the job has one node (%s)", role, j.Nodes.From.Name)
	case j.Min > 0 || j.Spares > 0:
		return contradiction("--nnodes N, and no --spares", "%s: a standby node or a further one would have to take "+
			"any role", role)
	case r.tasks.Size > 0:
		return contradiction("one task per node, as srun --ntasks-per-node=1 starts it",
			"%s with several tasks on each node", role)
	case !j.Store.V.Embedded && j.ID.From.Tier == setting.Derived:
		return contradiction("--job NAME, the same on all nodes", "%s: the roles run different commands, so the job's name "+
			"cannot be made of them", role)
	}
	return nil
}
