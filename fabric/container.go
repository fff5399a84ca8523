package fabric

import (
	"io/fs"
	"strings"
)

// container identifies the container runtime. Kubernetes is checked first, since its
// containers also have the marks of their runtime.
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
	case env("KUBERNETES_SERVICE_HOST") != "", strings.Contains(cgroup, "kubepods"),
		there("var/run/secrets/kubernetes.io/serviceaccount"):
		c.Kind = "kubernetes"
	case env("APPTAINER_CONTAINER") != "", env("SINGULARITY_CONTAINER") != "", there(".singularity.d"):
		c.Kind = "apptainer"
	case there("run/.containerenv"), env("container") == "podman", strings.Contains(cgroup, "libpod"):
		c.Kind = "podman"
	case there(".dockerenv"), env("container") == "docker", strings.Contains(cgroup, "/docker"):
		c.Kind = "docker"
	case strings.Contains(cgroup, "/lxc"), env("container") == "lxc":
		c.Kind = "lxc"
	case env("container") != "": // systemd-nspawn and others set it
		c.Kind = env("container")
	}
	c.RDMA = rdmaMode(r, n)
	n.note(proc.bad)
	return c
}

// rdmaMode returns the mode that "rdma system show" prints. It asks only if there is an
// RDMA device, since the socket alone makes the kernel look for a module. Without an
// answer by netlink, the module's parameter has the same value (ib_devices_shared_netns
// in drivers/infiniband/core/device.c).
func rdmaMode(r Roots, n *Node) string {
	if r.RDMA != nil && len(n.HCAs) > 0 {
		if mode, err := r.RDMA(); err == nil && (mode == "shared" || mode == "exclusive") {
			return mode
		}
	}
	sys := dir{fsys: r.Sys}
	defer func() { n.note(sys.bad) }()
	switch sys.line("module/ib_core/parameters/netns_mode") {
	case "Y":
		return "shared"
	case "N":
		return "exclusive"
	}
	return ""
}
