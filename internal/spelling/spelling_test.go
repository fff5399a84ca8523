package spelling

import "testing"

func TestClosest(t *testing.T) {
	flags := []string{"store", "nnodes", "node-rank", "job", "join-timeout", "store-host", "skip", "as", "version"}
	checks := []string{"gpu.count", "limits.memlock", "limits.nofile", "shm.size"}
	for _, tt := range []struct {
		word  string
		known []string
		want  string
	}{
		{"sotre", flags, "store"},
		{"nodes", flags, "nnodes"},
		{"NNOES", flags, "nnodes"},
		{"v", flags, "version"},
		{"s", flags, ""}, // store, store-host, skip
		{"timeout", flags, "join-timeout"},
		{"job_id", flags, "job"},
		{"as_root", flags, ""},
		{"verbose", flags, ""},
		{"a", flags, "as"},
		{"", flags, ""},
		{"foo", checks, ""},
		{"nofile", checks, "limits.nofile"},
		{"limits.memlok", checks, "limits.memlock"},
		{"GPU.count", checks, "gpu.count"},
		{"gpu.cuont", checks, "gpu.count"},
	} {
		if got := Closest(tt.word, tt.known); got != tt.want {
			t.Errorf("Closest(%q) = %q, want %q", tt.word, got, tt.want)
		}
	}
}
