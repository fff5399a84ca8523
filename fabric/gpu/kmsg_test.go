package gpu

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// records answers each call with one record, as /dev/kmsg does.
func records(answers ...any) func([]byte) (int, error) {
	return func(b []byte) (int, error) {
		if len(answers) == 0 {
			return -1, syscall.EAGAIN
		}
		next := answers[0]
		answers = answers[1:]
		if err, ok := next.(error); ok {
			return -1, err
		}
		return copy(b, next.(string)), nil
	}
}

func TestKernelLogCountsTheXIDsOfEachDevice(t *testing.T) {
	const gsp = "NVRM: Xid (PCI:0000:9b:00): 119, pid=2024380, name=nvidia-smi, Timeout after 6s of waiting for RPC " +
		"response from GPU4 GSP!"
	read := records(
		"6,1,100,-;Linux version 6.1\n",
		"4,700,10000000,-;"+gsp+"\n SUBSYSTEM=pci\n DEVICE=+pci:0000:9b:00.0\n",
		syscall.EPIPE, // overwritten in the meantime
		"4,701,16000000,-,caller=T1;"+gsp+"\n",
		syscall.EINTR,
		"12,702,17000000,-;NVRM: Xid (PCI:0000:01:00): 79, a program wrote this\n",
		"4,703,20000000,-;nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 30 LTSSM Fault Up\n",
		"3,704,90000000,-;NVRM: Xid (PCI:0000:9b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n",
	)
	got, err := readLog(read, 100*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	want := []XID{
		{PCI: "0000:9b:00.0", Code: 79, Count: 1, Age: 10, Text: "GPU has fallen off the bus."},
		{PCI: "0000:c1:00.0", Switch: true, Code: 20034, Count: 1, Age: 80, Text: "Fatal, Link 30 LTSSM Fault Up"},
		{PCI: "0000:9b:00.0", Code: 119, Count: 2, Age: 84,
			Text: "Timeout after 6s of waiting for RPC response from GPU4 GSP!"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("XIDs (-want +got):\n%s", diff)
	}
}

func TestKernelLogReportsWhyItIsNotRead(t *testing.T) {
	if _, err := readLog(records(syscall.EPERM), 0); err == nil {
		t.Error("no error from a log that may not be read")
	}
	// On any machine, it answers or returns the reason, and does not wait for the next
	// record.
	began := time.Now()
	var f Facts
	f.KernelLog()
	if took := time.Since(began); took > 10*logBudget {
		t.Errorf("reading the kernel log took %v", took)
	}
	if len(f.Unknown) > 0 && !strings.Contains(f.Unknown[0].Why, kernelLog) {
		t.Errorf("unknown = %+v, want the file in it", f.Unknown)
	}
	t.Logf("XIDs %+v, unknown %+v", f.XIDs, f.Unknown)
}

func TestXIDMessages(t *testing.T) {
	tests := []struct {
		message string
		want    XID
		ok      bool
	}{
		{"NVRM: Xid (PCI:0000:01:00): 31, pid=79749, name=exe, Ch 0000000a, intr 00000000. MMU Fault",
			XID{PCI: "0000:01:00.0", Code: 31, Text: "Ch 0000000a, intr 00000000. MMU Fault"}, true},
		{"NVRM: Xid (PCI:0000:01:00): 48", XID{PCI: "0000:01:00.0", Code: 48}, true},
		{"NVRM: Xid (PCI:0000:83:00): 79, pid=1234", XID{PCI: "0000:83:00.0", Code: 79}, true},
		{"NVRM: Xid (PCI:0018:01:00): 145, RLW_REMAP Nonfatal", XID{PCI: "0018:01:00.0", Code: 145,
			Text: "RLW_REMAP Nonfatal"}, true},
		{"NVRM: Xid (0000:0A:00): 13, Graphics Exception", XID{PCI: "0000:0a:00.0", Code: 13, Text: "Graphics Exception"},
			true},
		{"NVRM: GPU 0000:01:00.0: GPU has fallen off the bus.", XID{}, false},
		{"somebody said NVRM: Xid (PCI:0000:01:00): 79", XID{}, false},
		{"NVRM: Xid (PCI:0000:01:00): many, text", XID{}, false},
	}
	for _, tt := range tests {
		got, ok := parseXID(tt.message)
		if diff := cmp.Diff(tt.want, got); diff != "" || ok != tt.ok {
			t.Errorf("parseXID(%q): ok = %v, want %v (-want +got):\n%s", tt.message, ok, tt.ok, diff)
		}
	}
	long, _ := parseXID("NVRM: Xid (PCI:0000:01:00): 109, " + strings.Repeat("é", maxText))
	if n := len(long.Text); n > maxText+len("…") || !strings.HasSuffix(long.Text, "é…") {
		t.Errorf("a long text is %d bytes, %q", n, long.Text)
	}
}

func FuzzKernelLog(f *testing.F) {
	f.Add("4,700,10000000,-;NVRM: Xid (PCI:0000:9b:00): 119, pid=2024380, name=nvidia-smi, Timeout")
	f.Add("6,1,18446744073709551615,-;nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 20034")
	f.Fuzz(func(t *testing.T, record string) {
		xids, err := readLog(records(record), time.Hour)
		if err != nil || len(xids) > 1 {
			t.Fatalf("readLog(%q) = %v, %v", record, xids, err)
		}
		for _, x := range xids {
			if x.Count != 1 || x.Age < 0 || x.Age > 3600 || x.Code < 0 || len(x.Text) > maxText+len("…") {
				t.Errorf("readLog(%q) = %+v", record, x)
			}
			// A record in its own form reads the same again.
			if again, ok := parseXID(fmt.Sprintf("NVRM: Xid (PCI:%s): %d", x.PCI, x.Code)); !ok || again.PCI != x.PCI ||
				again.Code != x.Code {
				t.Errorf("%+v reads back as %+v", x, again)
			}
		}
	})
}
