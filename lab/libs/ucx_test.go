package libs

import (
	"go/version"
	"path/filepath"
	"strings"
	"testing"
)

func TestUCXUsesThePlannedInterface(t *testing.T) {
	t.Parallel()
	file := tool(t, "ucx_perftest", "ucx-utils")
	t.Run("plain", func(t *testing.T) {
		// Debian 12 has 1.13.
		v := found(ask(t, nil, tool(t, "ucx_info", "ucx-utils"), "-v"), `^# (?:Library v|V)ersion:? ([\d.]+)`, "go")
		if len(v) == 0 || version.Compare(v[0], "go1.16") >= 0 {
			t.Skipf("UCX from 1.16 on ignores bridges: %q", v)
		}
		server, client := newSite(t, 2, false).perftest(nil, file)
		if !strings.Contains(server.said.String()+client.said.String(), "dest_addr="+decoys) {
			t.Error("neither side called docker0: the test proves nothing")
		}
		if client.cmd.ProcessState.ExitCode() == 0 {
			t.Error("it succeeded without launch: the test proves nothing")
		}
	})
	t.Run("with launch", func(t *testing.T) { underPlan(t, nil, file) })
	t.Run("with launch, PyPI's", func(t *testing.T) {
		file := kept("libucx-cu12-*/libucx/bin/ucx_perftest")(t)[0]
		underPlan(t, []string{"LD_LIBRARY_PATH=" + filepath.Join(filepath.Dir(file), "..", "lib")}, file)
	})
}

// underPlan runs ucx_perftest in the environment that launch env prints, because the
// client must start after its server.
func underPlan(t *testing.T, env []string, file string) {
	t.Helper()
	s := newSite(t, 2, false)
	server, client := s.perftest(env, "sh", "-c",
		`eval "$("$0" env --store host0 --nnodes 2 -- ucx_perftest)" && echo "over <$UCX_NET_DEVICES>" && exec "$@"`,
		s.launch, file)
	for _, r := range []*run{server, client} {
		said := r.said.String()
		if status := r.cmd.ProcessState.ExitCode(); status != 0 || !strings.Contains(said, "over <eth0>\n") {
			t.Errorf("%s: exit %d; want 0 over eth0", r.host, status)
		}
		if strings.Contains(said, "unused env") {
			t.Errorf("%s: UCX does not use a variable of the plan", r.host)
		}
	}
}

// perftest runs a server on host0 and its client on host1 until both end.
func (s *site) perftest(env []string, argv ...string) (server, client *run) {
	s.t.Helper()
	const port = "13337"
	server = s.start(0, env, append(argv, "-p", port)...)
	s.until("the server listens", func() bool {
		out, _ := s.command(s.t.Context(), s.lab.Hosts[0], "ss", "-ltnH", "sport = :"+port).Output()
		return len(out) > 0
	})
	client = s.start(1, env, append(argv, "host0", "-p", port, "-t", "tag_lat", "-n", "100")...)
	s.ends(client)
	s.ends(server)
	return server, client
}
