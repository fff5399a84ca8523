package fabric

import (
	"testing"
	"testing/fstest"
)

func TestTrafficIsReadInBytes(t *testing.T) {
	sys := fstest.MapFS{
		"class/net/eth0/statistics/tx_bytes":                      {Data: []byte("1000\n")},
		"class/net/eth0/statistics/rx_bytes":                      {Data: []byte("7\n")},
		"class/infiniband/mlx5_0/ports/1/counters/port_xmit_data": {Data: []byte("1000\n")},
		"class/infiniband/mlx5_0/ports/1/counters/port_rcv_data":  {Data: []byte("3\n")},
		"class/net/eth1/statistics/tx_bytes":                      {Data: []byte("many\n")},
	}
	for _, tt := range []struct {
		netdev, hca string
		want        Traffic
		ok          bool
	}{{"eth0", "", Traffic{1000, 7}, true}, {"eth0", "mlx5_0", Traffic{4000, 12}, true}, {"eth1", "", Traffic{}, false},
		{"eth9", "", Traffic{}, false}} {
		got, err := ReadTraffic(sys, tt.netdev, tt.hca, 1)
		if got != tt.want || (err == nil) != tt.ok {
			t.Errorf("%s %s: %+v, %v", tt.netdev, tt.hca, got, err)
		}
	}
}
