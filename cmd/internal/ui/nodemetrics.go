package ui

import (
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"launch/fabric"
	"launch/fabric/gpu"
	"launch/fabric/rail"
)

// NodeMetrics is the state of the devices of a node at one moment.
type NodeMetrics struct {
	Node     fabric.Node
	Roles    []rail.NIC // of its devices
	Counters []fabric.PortCounters
	At       time.Time
	Took     time.Duration
}

// samples collects values that were read once. Describe sends nothing, so the registry accepts any metric.
type samples struct{ all []prometheus.Metric }

func (s *samples) Describe(chan<- *prometheus.Desc) {}

func (s *samples) Collect(to chan<- prometheus.Metric) {
	for _, m := range s.all {
		to <- m
	}
}

func (s *samples) registry() *prometheus.Registry {
	reg := prometheus.NewRegistry()
	reg.MustRegister(s)
	return reg
}

// add adds a sample; labels alternates names and values.
func (s *samples) add(kind prometheus.ValueType, name, help string, value float64, labels ...string) {
	var names, values []string
	for i := 0; i+1 < len(labels); i += 2 {
		names, values = append(names, labels[i]), append(values, visible(labels[i+1]))
	}
	desc := prometheus.NewDesc(name, help, names, nil)
	s.all = append(s.all, prometheus.MustNewConstMetric(desc, kind, value, values...))
}

func (s *samples) gauge(name, help string, value float64, labels ...string) {
	s.add(prometheus.GaugeValue, name, help, value, labels...)
}

func (s *samples) counter(name, help string, value float64, labels ...string) {
	s.add(prometheus.CounterValue, name, help, value, labels...)
}

func (m NodeMetrics) registry() *prometheus.Registry {
	s := &samples{}
	for _, h := range m.Node.HCAs {
		role := rail.Role("")
		for _, n := range m.Roles {
			if n.HCA && n.Name == h.Name {
				role = n.Role
			}
		}
		for _, p := range h.Ports {
			s.port(h, p, string(role))
		}
	}
	for _, c := range m.Counters {
		s.counted(c)
	}
	s.gpus(m.Node.GPUs)
	s.gauge("launch_metrics_timestamp_seconds", "Time at which the devices were read, in seconds since 1970.",
		float64(m.At.UnixMilli())/1000)
	s.gauge("launch_metrics_duration_seconds", "Duration of reading the devices.", m.Took.Seconds())
	s.gauge("launch_metrics_unknown", "Number of facts of this node that could not be read: see launch fabric.",
		float64(len(m.Node.Unknown)))
	return s.registry()
}

// linkUp is a physical state of an InfiniBand port (IBTA 1.4, PortInfo).
const linkUp = 5

func (s *samples) port(h fabric.HCA, p fabric.Port, role string) {
	id := []string{"hca", h.Name, "port", strconv.Itoa(p.Num)}
	s.gauge("launch_rdma_port_info", "Facts of an RDMA port, and its role in launch fabric.", 1,
		append(id, "link_layer", p.LinkLayer, "driver", h.Driver, "firmware", h.Firmware, "netdev", p.Netdev,
			"pci", h.PCI, "role", role)...)
	s.gauge("launch_rdma_port_active", "1: the port is ACTIVE.", flag(p.Active()), id...)
	s.gauge("launch_rdma_port_state", "State: 1 DOWN, 2 INIT (no subnet manager yet), 3 ARMED, 4 ACTIVE, 0 unknown.",
		float64(p.State), id...)
	s.gauge("launch_rdma_port_physical_state",
		"Physical state: 2 Polling, 3 Disabled, 5 LinkUp, 6 LinkErrorRecovery, 0 unknown.", float64(p.PhysState), id...)
	if p.Active() && p.PhysState == linkUp && p.Rate > 0 {
		s.gauge("launch_rdma_port_speed_bytes_per_second",
			"Speed of the link in one direction, all lanes together; missing while the port is not ACTIVE.",
			p.Rate*1e9/8, id...)
		if p.Lanes > 0 {
			s.gauge("launch_rdma_port_lanes", "Number of lanes that the link uses.", float64(p.Lanes), id...)
		}
	}
}

// counted adds the counters of a port: bytes by metrics of their own, the others by their names in /sys.
func (s *samples) counted(c fabric.PortCounters) {
	id := []string{"hca", c.HCA, "port", strconv.Itoa(c.Port)}
	for _, n := range c.Counters {
		switch n.Name {
		case "port_xmit_data":
			s.counter("launch_rdma_port_sent_bytes_total", "Bytes that the port sent (port_xmit_data times 4).",
				float64(n.Value), id...)
		case "port_rcv_data":
			s.counter("launch_rdma_port_received_bytes_total", "Bytes that the port received (port_rcv_data times 4).",
				float64(n.Value), id...)
		default:
			s.counter("launch_rdma_port_events_total",
				"Counter of the port, by its name in /sys/class/infiniband (counters, hw_counters).",
				float64(n.Value), append(slices.Clone(id), "counter", n.Name)...)
		}
	}
	s.gauge("launch_rdma_port_unread_counters", "Number of counters of the port that could not be read.",
		float64(c.Unread), id...)
}

func (s *samples) gpus(f gpu.Facts) {
	if !f.Present && f.Err == "" {
		return
	}
	s.gauge("launch_gpu_answering", "1: NVML answered. 0: a driver is loaded, but NVML does not answer.", flag(f.Present))
	for _, g := range f.Devices {
		id := []string{"gpu", strconv.Itoa(g.Index), "uuid", g.UUID}
		s.gauge("launch_gpu_info", "Facts of a GPU.", 1, append(id, "name", g.Name, "pci", g.PCI, "driver", f.Driver)...)
		s.gauge("launch_gpu_lost", "1: the driver reports that the GPU is lost or needs a reset.", flag(g.Err != ""), id...)
		if g.Err == "" {
			s.gpu(g, id)
		}
	}
}

func (s *samples) gpu(g gpu.GPU, id []string) {
	with := func(more ...string) []string { return append(slices.Clone(id), more...) }
	s.gauge("launch_gpu_memory_bytes", "Size of the GPU's memory.", float64(g.Memory), id...)
	s.gauge("launch_gpu_memory_used_bytes", "GPU memory in use by processes and the driver.", float64(g.MemoryUsed), id...)
	if g.Lanes > 0 {
		s.gauge("launch_gpu_pcie_lanes", "Number of lanes of the PCIe link.", float64(g.Lanes), id...)
		s.gauge("launch_gpu_pcie_lanes_max", "Most lanes that the GPU's PCIe link supports.", float64(g.MaxLanes), id...)
	}
	s.load(g.Load, id)
	for _, why := range g.Throttle {
		s.gauge("launch_gpu_throttled", "1 for each reason why the clocks are below their maximum now.", 1,
			with("reason", why)...)
	}
	if g.Recovery != "" {
		s.gauge("launch_gpu_recovery_action", "1: the action that the driver requires before the GPU is used again.", 1,
			with("action", g.Recovery)...)
	}
	if e := g.ECC; e != nil {
		for kind, n := range map[string]int64{"corrected": e.Corrected, "uncorrected": e.Uncorrected} {
			if n >= 0 {
				s.counter("launch_gpu_ecc_errors_total", "Memory errors since the driver was loaded.", float64(n),
					with("kind", kind)...)
			}
		}
	}
	if r := g.Rows; r != nil {
		for kind, n := range map[string]int{"corrected": r.Corrected, "uncorrected": r.Uncorrected} {
			s.gauge("launch_gpu_remapped_rows", "Memory rows that spare rows replace.", float64(n), with("kind", kind)...)
		}
		s.gauge("launch_gpu_row_remap_pending", "1: the next reset remaps one more row.", flag(r.Pending), id...)
		s.gauge("launch_gpu_row_remap_failed", "1: no spare row was left: replace the board.", flag(r.Failed), id...)
	}
	if l := g.NVLink; l != nil {
		s.gauge("launch_gpu_nvlinks", "Number of NVLinks of the GPU.", float64(l.Total), id...)
		s.gauge("launch_gpu_nvlinks_up", "Number of NVLinks that are up.", float64(l.Up), id...)
		for kind, n := range map[string]int64{"crc": l.CRC, "replay": l.Replays, "recovery": l.Recoveries} {
			if n >= 0 {
				s.counter("launch_gpu_nvlink_errors_total", "Errors of all NVLinks since the driver was loaded.", float64(n),
					with("kind", kind)...)
			}
		}
	}
	if f := g.Fabric; f != nil {
		s.gauge("launch_gpu_fabric_ready", "1: the fabric manager added the GPU to the NVLink fabric.",
			flag(f.State == "completed"), with("health", f.Health)...)
	}
}

// load adds what a GPU does now.
func (s *samples) load(l *gpu.Load, id []string) {
	if l == nil {
		return
	}
	for _, v := range []struct {
		name, help string
		value      float64
	}{
		{"launch_gpu_temperature_celsius", "Temperature of the GPU's chip.", float64(l.Temperature)},
		{"launch_gpu_power_watts", "Power that the board draws; of most GPUs the mean of the last second.", l.Power},
		{"launch_gpu_power_limit_watts", "Power at which the driver reduces the clocks.", l.PowerLimit},
		{"launch_gpu_utilization_ratio", "Part of the last sample, up to 1 s, in which a kernel ran.",
			float64(l.Utilization) / 100},
		{"launch_gpu_memory_utilization_ratio", "Part of the last sample in which GPU memory was read or written.",
			float64(l.MemoryBusy) / 100},
	} {
		if v.value >= 0 {
			s.gauge(v.name, v.help, v.value, id...)
		}
	}
}

func flag(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
