package scene

import (
	"net"
	"strconv"
	"strings"
)

// The kinds of addresses that a job's processes name.
const (
	kindMaster   = "master"   // MASTER_ADDR of ranks or agents
	kindEndpoint = "endpoint" // of c10d's rendezvous
)

// address is a store as a process of the job names it.
type address struct {
	host string
	port int
	kind string
	net  uint64 // the network namespace of the process
}

func (a address) String() string { return net.JoinHostPort(a.host, strconv.Itoa(a.port)) }

// c10dPort is torchrun's own port for an endpoint without one.
const c10dPort = 29400

// addresses returns the torch stores that a process names. An endpoint of etcd is none.
func (p *seen) addresses() []address {
	var out []address
	add := func(kind, host, port string, standard int) {
		n, err := strconv.Atoi(port)
		if port == "" {
			n, err = standard, nil
		}
		if err == nil && n > 0 && n < 1<<16 && host != "" && len(host) <= maxHost {
			out = append(out, address{host, n, kind, p.net})
		}
	}
	switch p.role {
	case Rank:
		add(kindMaster, p.env["MASTER_ADDR"], p.env["MASTER_PORT"], 0)
		if p.store.IsValid() {
			add(kindMaster, p.store.Addr().String(), strconv.Itoa(int(p.store.Port())), 0)
		}
	case Agent:
		o := agentOptions(p.argv, p.env)
		backend := o["rdzv-backend"]
		if end := o["rdzv-endpoint"]; end != "" && (backend == "c10d" || backend == "" || backend == "static") {
			host, port, standard := end, "", 0
			if h, p, err := net.SplitHostPort(end); err == nil {
				host, port = h, p
			}
			kind := kindMaster
			if backend == "c10d" {
				kind, standard = kindEndpoint, c10dPort
			}
			add(kind, strings.Trim(host, "[]"), port, standard)
		}
		if _, standalone := o["standalone"]; (backend == "" || backend == "static") && o["rdzv-endpoint"] == "" &&
			!standalone {
			add(kindMaster, o["master-addr"], o["master-port"], masterPort)
		}
	}
	return out
}

// masterPort is torchrun's own port, and maxHost the longest name that a host may have.
const masterPort, maxHost = 29500, 253

// agentOptions returns those options of torchrun that say where its store is, and torchrun's variables for
// them. It stops at the script, whose options are not torchrun's.
func agentOptions(argv []string, env map[string]string) map[string]string {
	out := map[string]string{}
	for _, n := range []string{"rdzv-endpoint", "rdzv-backend", "master-addr", "master-port"} {
		if v := env["PET_"+strings.ToUpper(strings.ReplaceAll(n, "-", "_"))]; v != "" {
			out[n] = v
		}
	}
	for i := 0; i < len(argv); i++ {
		name, value, assigned := strings.Cut(argv[i], "=")
		if !strings.HasPrefix(name, "--") {
			continue
		}
		name = strings.ReplaceAll(strings.TrimPrefix(name, "--"), "_", "-")
		switch name {
		case "standalone":
			out[name] = ""
		case "rdzv-endpoint", "rdzv-backend", "master-addr", "master-port":
			if !assigned && i+1 < len(argv) {
				i++
				value = argv[i]
			}
			if _, twice := out["="+name]; !twice { // the script may have options of the same name, after torchrun's
				out[name], out["="+name] = value, ""
			}
		}
	}
	return out
}
