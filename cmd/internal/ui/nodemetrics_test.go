package ui

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"launch/fabric"
	"launch/fabric/gpu"
	"launch/fabric/machine/machinetest"
	"launch/fabric/rail"
)

// sick returns a node that has a value for every metric.
func sick(t *testing.T) NodeMetrics {
	t.Helper()
	n := machinetest.Node(t, "h100-ib-ndr-bond")
	n.GPUs = gpu.Facts{Present: true, Driver: "570.86.15", Devices: []gpu.GPU{
		{Index: 0, UUID: "GPU-0", Name: "NVIDIA H100", PCI: "0000:1b:00.0", Memory: 80 << 30, MemoryUsed: 1 << 30, Lanes: 8,
			MaxLanes: 16, Load: &gpu.Load{Temperature: 88, Power: 431.5, PowerLimit: 700, Utilization: 97, MemoryBusy: -1},
			Throttle: []string{"hw_thermal"}, Recovery: "reset", ECC: &gpu.ECC{Corrected: 3, Uncorrected: -1},
			Rows: &gpu.Rows{Corrected: 1, Failed: true}, NVLink: &gpu.NVLink{Total: 18, Up: 17, CRC: 2, Replays: -1,
				Recoveries: -1},
			Fabric: &gpu.Fabric{State: "completed", Health: "healthy"}},
		{Index: 1, UUID: "GPU-1", Err: "lost"},
	}}
	const at = "class/infiniband/mlx5_0/ports/1/"
	file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s + "\n")} }
	sys := fstest.MapFS{
		at + "counters/port_xmit_data":  file("25"),
		at + "counters/port_rcv_data":   file("26"),
		at + "counters/symbol_error":    file("7"),
		at + "counters/port_rcv_errors": file("none"),
		at + "hw_counters/lifespan":     file("10"),
		at + "hw_counters/symbol_error": file("99"), // a second of one name would be refused
		at + "hw_counters/np_cnp_sent":  file("12"),

		at + "hw_counters/local_ack_timeout_err": file("3"),
	}
	return NodeMetrics{Node: n, Roles: rail.Of(n, n.Route.Src).NICs, Counters: fabric.ReadPortCounters(sys, n.HCAs[:1]),
		At: time.Unix(1700000000, 0), Took: time.Second}
}

func TestNodeMetricsHaveKnownValuesOnly(t *testing.T) {
	text, err := textOf(sick(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`launch_rdma_port_active{hca="mlx5_0",port="1"} 1`,
		`launch_rdma_port_speed_bytes_per_second{hca="mlx5_0",port="1"} 5e+10`,
		`launch_rdma_port_sent_bytes_total{hca="mlx5_0",port="1"} 100`,
		`launch_rdma_port_events_total{counter="symbol_error",hca="mlx5_0",port="1"} 7`,
		`launch_rdma_port_events_total{counter="np_cnp_sent",hca="mlx5_0",port="1"} 12`,
		`role="compute"`,
		`launch_gpu_throttled{gpu="0",reason="hw_thermal",uuid="GPU-0"} 1`,
		`launch_gpu_temperature_celsius{gpu="0",uuid="GPU-0"} 88`,
		`launch_gpu_power_watts{gpu="0",uuid="GPU-0"} 431.5`,
		`launch_gpu_power_limit_watts{gpu="0",uuid="GPU-0"} 700`,
		`launch_gpu_utilization_ratio{gpu="0",uuid="GPU-0"} 0.97`,
		`launch_gpu_ecc_errors_total{gpu="0",kind="corrected",uuid="GPU-0"} 3`,
		`launch_gpu_nvlinks_up{gpu="0",uuid="GPU-0"} 17`,
		`launch_gpu_lost{gpu="1",uuid="GPU-1"} 1`,
		`launch_metrics_timestamp_seconds 1.7e+09`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s", want)
		}
	}
	for _, not := range []string{"lifespan", "port_rcv_errors", "launch_gpu_memory_utilization",
		`kind="uncorrected",uuid="GPU-0"} -1`,
		`launch_gpu_memory_bytes{gpu="1"`, " 99\n"} {
		if strings.Contains(text, not) {
			t.Errorf("has %s:\n%s", not, text)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
}

// The alerts and the dashboard name what launch writes, metrics and labels.
func TestExamplesUseExistingMetrics(t *testing.T) {
	labels := map[string][]string{} // by metric; Prometheus adds "instance"
	for _, m := range []Metrics{sick(t), surveyed(1)} {
		families, err := m.registry().Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			all := []string{"instance"}
			for _, l := range f.GetMetric()[0].GetLabel() {
				all = append(all, l.GetName())
			}
			labels[f.GetName()] = all
		}
	}
	names := regexp.MustCompile(`launch_[a-z_]+`)
	words := regexp.MustCompile(`(\w+) ?=~|\{\{(?:\s*\$labels\.)?(\w+)\s*\}\}`)
	for _, file := range []string{"launch.rules.yaml", "launch.dashboard.json"} {
		text, err := os.ReadFile(filepath.Join("..", "..", "..", "examples", "monitoring", file))
		if err != nil {
			t.Fatal(err)
		}
		used := names.FindAllString(string(text), -1)
		if len(used) < 10 {
			t.Fatalf("%d metrics in %s", len(used), file)
		}
		var known []string
		for _, name := range used {
			if labels[name] == nil {
				t.Errorf("%s: no code writes %s", file, name)
			}
			known = append(known, labels[name]...)
		}
		for _, m := range words.FindAllStringSubmatch(string(text), -1) {
			if l := m[1] + m[2]; !slices.Contains(known, l) {
				t.Errorf("%s: none of its metrics has the label %s", file, l)
			}
		}
	}
}

func TestPromtoolFindsNoFaultInTheMetrics(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("needs promtool in PATH (package prometheus)")
	}
	text, err := textOf(sick(t))
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(promtool, "check", "metrics")
	c.Stdin = strings.NewReader(text)
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
