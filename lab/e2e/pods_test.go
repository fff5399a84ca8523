package e2e

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// zoneFile is the variable that makes this test binary a name server of a file: lines as in /etc/hosts.
const zoneFile = "E2E_ZONE"

// podDomain follows a pod's name.
const podDomain = "train.default.svc.cluster.local"

// serveZone answers at 127.0.0.53. It reads the file for each question.
func serveZone(file string) error {
	conn, err := net.ListenPacket("udp", "127.0.0.53:53")
	if err != nil {
		return err
	}
	handler := dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		m := new(dns.Msg).SetReply(q)
		m.RecursionAvailable, m.Rcode = true, dns.RcodeNameError
		text, _ := os.ReadFile(file)
		for line := range strings.Lines(string(text)) {
			f := strings.Fields(line)
			if len(f) < 2 || f[1]+"." != q.Question[0].Name {
				continue
			}
			if m.Rcode = dns.RcodeSuccess; q.Question[0].Qtype == dns.TypeA {
				rr, _ := dns.NewRR(f[1] + ". 5 IN A " + f[0])
				m.Answer = append(m.Answer, rr)
			}
		}
		_ = w.WriteMsg(m)
	})
	fmt.Println("ready")
	return (&dns.Server{PacketConn: conn, Handler: handler}).ActivateAndServe()
}

// pods are hosts as the pods of an Indexed Job named train see themselves.
type pods struct {
	*cluster
	zone  string   // the file of the cluster's names
	zones []string // what each host's name server reads
}

// podsOf returns n hosts with a name server each, which know the same names, or apart: each its own.
func podsOf(t *testing.T, n int, apart bool) *pods {
	p := &pods{cluster: embedded(t, n), zone: filepath.Join(t.TempDir(), "zone")}
	p.flags = append(p.flags, "--restarts", "3")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for i, h := range p.lab.Hosts {
		h.Etc("resolv.conf", "nameserver 127.0.0.53\n")
		p.zones = append(p.zones, p.zone)
		if apart {
			p.zones[i] += strconv.Itoa(i)
		}
		cmd := h.Command(t.Context(), self)
		cmd.Env = append(cmd.Env, zoneFile+"="+p.zones[i])
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
	}
	return p
}

// names writes the cluster's names: the hosts of each pod.
func (p *pods) names(pods ...[]int) {
	var text strings.Builder
	for i, hosts := range pods {
		for _, h := range hosts {
			fmt.Fprintf(&text, "%s train-%d.%s\n", p.lab.Hosts[h].Addr, i, podDomain)
		}
	}
	if err := os.WriteFile(p.zone+"~", []byte(text.String()), 0o644); err != nil {
		p.t.Fatal(err)
	}
	if err := os.Rename(p.zone+"~", p.zone); err != nil {
		p.t.Fatal(err)
	}
}

// pod starts pod i of two on a host.
func (p *pods) pod(i, host int) *node {
	h := p.lab.Hosts[host]
	h.Etc("hosts", fmt.Sprintf("# Kubernetes-managed hosts file.\n127.0.0.1 localhost\n%s train-%d.%s train-%[2]d\n",
		h.Addr, i, podDomain))
	const named = `echo "$0" >/proc/sys/kernel/hostname && exec "$@"`
	return p.startBare(host, slices.Concat([]string{"unshare", "--uts", "/bin/sh", "-c", named, fmt.Sprintf("train-%d", i),
		tools.launch}, p.flags, p.line), fmt.Sprintf("JOB_COMPLETION_INDEX=%d", i), "LAUNCH_NNODES=2",
		"JOB_UID=6f1c9b0e-5d3a-4c7e-9f10-aa55d0c3b1e2")
}

// lose ends a host as a power cut does.
func (p *pods) lose(host int) {
	p.lab.MayLeave("launch-store*")
	p.lab.Hosts[host].Cut()
	if err := p.lab.Hosts[host].Signal(syscall.SIGKILL); err != nil {
		p.t.Fatal(err)
	}
}

// The machine of pod 0 is lost, and Kubernetes makes a new pod 0. No other pod has seen the end of the store: they
// start again at once, in the pods that they are.
func TestPodsStartAgainWhereTheMachineOfTheStoreIsLost(t *testing.T) {
	t.Parallel()
	p := podsOf(t, 3, false)
	file := filepath.Join(t.TempDir(), "file")
	p.line = runsUntil(file)
	p.names([]int{0}, []int{1})
	p.pod(0, 0)
	other := p.pod(1, 1)
	other.prints("begun\n")
	p.lose(0)
	other.says("the store is lost")
	other.says("kubectl -n default get pods -l batch.kubernetes.io/job-name=train")
	pause(t, 5*time.Second)
	p.names([]int{0, 2}, []int{1}) // the old pod has not ended, as far as Kubernetes knows
	newer := p.pod(0, 2)
	newer.prints("begun\n")
	other.prints("begun\nbegun\n")
	other.says("launch starts again in this pod")
	end(t, file)
	trained(t, 1, newer, other)
}

// A pod that was cut off does not start again if a newer one is made in its place: its name is the newer one's, too.
func TestAPodThatIsReplacedDoesNotStartAgain(t *testing.T) {
	t.Parallel()
	p := podsOf(t, 4, false)
	file := filepath.Join(t.TempDir(), "file")
	p.line = runsUntil(file)
	p.names([]int{0}, []int{1})
	p.pod(0, 0)
	cut := p.pod(1, 1)
	cut.prints("begun\n")
	p.lose(0)
	p.lab.Hosts[1].Cut()
	cut.says("the store is lost")
	p.names([]int{2}, []int{1, 3})
	host := p.pod(0, 2)
	p.joined(host)
	p.lab.Hosts[1].Heal()
	cut.exits(73)
	newer := p.pod(1, 3)
	newer.prints("begun\n")
	end(t, file)
	trained(t, 1, host, newer)
}
