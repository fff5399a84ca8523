package fabric

import (
	"io/fs"
	"strings"
)

// container tells what is around this process. Kubernetes comes first: its
// containers have the marks of their runtime, too.
func container(r Roots, n *Node) Container {
	env := func(string) string { return "" }
	if r.Env != nil {
		env = r.Env
	}
	proc := dir{fsys: r.Proc}
	cgroup := proc.line("self/cgroup")
	there := func(name string) bool {
		_, err := fs.Stat(r.Root, name)
		return err == nil
	}
	var c Container
	switch {
	case env("KUBERNETES_SERVICE_HOST") != "", strings.Contains(cgroup, "kubepods"), there("var/run/secrets/kubernetes.io/serviceaccount"):
		c.Kind = "kubernetes"
	case env("APPTAINER_CONTAINER") != "", env("SINGULARITY_CONTAINER") != "", there(".singularity.d"):
		c.Kind = "apptainer"
	case there("run/.containerenv"), env("container") == "podman", strings.Contains(cgroup, "libpod"):
		c.Kind = "podman"
	case there(".dockerenv"), env("container") == "docker", strings.Contains(cgroup, "/docker"):
		c.Kind = "docker"
	case strings.Contains(cgroup, "/lxc"), env("container") == "lxc":
		c.Kind = "lxc"
	case env("container") != "": // systemd-nspawn and others name themselves so
		c.Kind = env("container")
	}
	// The parameter is the variable that "rdma system set netns" changes
	// (ib_devices_shared_netns in drivers/infiniband/core/device.c).
	sys := dir{fsys: r.Sys}
	switch sys.line("module/ib_core/parameters/netns_mode") {
	case "Y":
		c.RDMA = "shared"
	case "N":
		c.RDMA = "exclusive"
	}
	n.note(proc.bad)
	n.note(sys.bad)
	return c
}
