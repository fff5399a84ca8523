package peers

import (
	"slices"
	"strings"
	"testing"

	"launch/internal/finding"
)

func TestSettingsThatHaveToBeAlikeAreCompared(t *testing.T) {
	set := func(gpu bool, at int, name, value string) func(int, *Post) {
		return func(i int, p *Post) {
			p.Loads.GPU = gpu
			p.Constants = map[string]string{"NCCL_NET": "Socket"}
			if i == at {
				p.Constants[name] = value
			}
		}
	}
	for _, tc := range []struct {
		name  string
		posts []Post
		says  string // "": nothing is found
		want  finding.Status
		unfit []int
	}{
		{"alike", posts(4, set(true, -1, "", "")), "", "", nil},
		{"one has another value, on GPUs", posts(4, set(true, 2, "NCCL_NET", "IB")),
			`3 of 4 nodes have "NCCL_NET=Socket", host2 has "NCCL_NET=IB"`, finding.Fail, []int{2}},
		{"one alone has it", posts(4, set(true, 0, "NCCL_ALGO", "Ring")),
			`3 of 4 nodes have "NCCL_ALGO not set", host0 has "NCCL_ALGO=Ring"`, finding.Fail, []int{0}},
		{"without GPUs no library reads NCCL's", posts(4, set(false, 2, "NCCL_NET", "IB")), "NCCL_NET differs", finding.Warn,
			nil},
		{"no node has an RDMA device", posts(4, set(true, 2, "NCCL_IB_DISABLE", "1")), "NCCL_IB_DISABLE differs",
			finding.Warn, nil},
		{"one has an RDMA device", posts(4, func(i int, p *Post) {
			set(true, 2, "NCCL_IB_DISABLE", "1")(i, p)
			p.Loads.RDMA = i == 0
		}), "NCCL_IB_DISABLE differs", finding.Fail, []int{2}},
		{"what NCCL_NET_PLUGIN finds decides", posts(4, set(true, 2, "NCCL_NET_PLUGIN", "gone")), "NCCL_NET_PLUGIN differs",
			finding.Warn, nil},
		{"torch's level that asks all ranks", posts(4, func(i int, p *Post) {
			set(false, 1, "TORCH_DISTRIBUTED_DEBUG", "DETAIL")(i, p)
			p.Loads.Torch.Version = "2.15.0"
		}), "TORCH_DISTRIBUTED_DEBUG differs", finding.Fail, []int{1}},
		{"the barrier of torch", posts(4, func(i int, p *Post) {
			set(false, 1, "TORCH_DIST_INIT_BARRIER", "1")(i, p)
			p.Loads.Torch.Version = "2.4.1"
		}), "TORCH_DIST_INIT_BARRIER differs", finding.Fail, []int{1}},
		{"the same, which an older torch does not read", posts(4, func(i int, p *Post) {
			set(false, 1, "TORCH_DIST_INIT_BARRIER", "1")(i, p)
			p.Loads.Torch.Version = "2.0.1"
		}), "TORCH_DIST_INIT_BARRIER differs", finding.Warn, nil},
		{"detail without torch", posts(4, set(false, 1, "TORCH_DISTRIBUTED_DEBUG", "DETAIL")),
			"TORCH_DISTRIBUTED_DEBUG differs", finding.Warn, nil},
		{"the order of Python's sets on one node alone", posts(4, set(false, 1, "PYTHONHASHSEED", "0")), "", "", nil},
		{"the order of Python's sets on most nodes", posts(3, func(i int, p *Post) {
			if i > 0 {
				p.Constants = map[string]string{"PYTHONHASHSEED": "0"}
			}
		}), `host0 has "PYTHONHASHSEED not set"`, finding.Warn, nil},
		{"two orders of Python's sets", posts(4, func(i int, p *Post) {
			if i > 1 {
				p.Constants = map[string]string{"PYTHONHASHSEED": string(rune('0' + i))}
			}
		}), "PYTHONHASHSEED differs", finding.Warn, nil},
		{"how Gloo connects", posts(4, set(false, 1, "TORCH_GLOO_LAZY_INIT", "1")),
			`host1 has "TORCH_GLOO_LAZY_INIT=1"`, finding.Warn, nil},
		{"how Gloo connects, alike", posts(4, func(_ int, p *Post) {
			p.Constants = map[string]string{"TORCH_GLOO_LAZY_INIT": "1"}
		}), "", "", nil},
		{"another library's", posts(4, set(true, 3, "UCX_TLS", "tcp")), "UCX_TLS differs", finding.Warn, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := Decide(tc.posts, nil)
			if !slices.Equal(d.Unfit, tc.unfit) || d.Go != (tc.unfit == nil) {
				t.Errorf("go %v, unfit %v; want unfit %v", d.Go, d.Unfit, tc.unfit)
			}
			i := slices.IndexFunc(d.Findings, func(f finding.Finding) bool { return f.ID == "same.env" })
			switch {
			case tc.says == "" && i >= 0:
				t.Errorf("found %+v, want nothing", d.Findings[i])
			case tc.says != "" && (i < 0 || d.Findings[i].Status != tc.want || !strings.Contains(d.Findings[i].What, tc.says)):
				t.Errorf("found %+v, want %s: %s", d.Findings, tc.want, tc.says)
			}
		})
	}
}

// What launch sets on a node for its fabric alone is one cause with the fabric.
func TestASettingThatFollowsFromTheFabricIsToldWithIt(t *testing.T) {
	for _, tc := range []struct {
		name string
		edit func(i int, p *Post)
		want []string // ID and status
	}{
		{"the same node", func(i int, p *Post) {
			if p.Traits.Fabric = "infiniband"; i == 2 {
				p.Traits.Fabric, p.Constants = "tcp", map[string]string{"NCCL_NET": "Socket"}
			}
		}, []string{"same.fabric fail"}},
		{"another node", func(i int, p *Post) {
			p.Traits.Fabric = "infiniband"
			switch i {
			case 1:
				p.Constants = map[string]string{"NCCL_NET": "Socket"}
			case 2:
				p.Traits.Fabric = "tcp"
			}
		}, []string{"same.fabric warn", "same.env fail"}},
		{"no setting follows", func(i int, p *Post) {
			if p.Traits.Fabric = "infiniband"; i == 2 {
				p.Traits.Fabric = "tcp"
			}
		}, []string{"same.fabric warn"}},
		{"addresses", func(i int, p *Post) {
			if p.Traits.GID = "RoCE v2, IPv4"; i == 2 {
				p.Traits.GID, p.Constants = "RoCE v2, IPv6", map[string]string{"NCCL_IB_ADDR_FAMILY": "AF_INET6"}
			}
		}, []string{"same.gid fail"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got []string
			d := Decide(posts(4, func(i int, p *Post) { p.Loads.GPU = true; tc.edit(i, p) }), nil)
			for _, f := range d.Findings {
				got = append(got, f.ID+" "+string(f.Status))
			}
			if !slices.Equal(got, tc.want) || d.Go == strings.Contains(strings.Join(got, " "), "fail") {
				t.Errorf("go %v, found %q, want %q", d.Go, got, tc.want)
			}
		})
	}
}
