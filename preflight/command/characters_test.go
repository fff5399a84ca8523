package command

import (
	"strings"
	"testing"

	"launch/internal/finding"
	"launch/preflight/checktest"
)

func TestCharactersThatAreNotSeen(t *testing.T) {
	for _, tc := range []struct{ arg, variable, want string }{
		{"--lr=1e-3", "10.0.0.1", "ok"},
		{"--master-addr=10.0.0.1\r", "", `warn carriage return (\r): "--master-addr=10.0.0.1\r"`},
		{"", "10.0.0.1\r", "warn the variable MASTER_ADDR has a carriage return"},
		{"--lr\u00a01e-3", "", "warn a special space"},
		{"\u201ctrain.py\u201d", "", "warn a typographic quote"},
		{"--out=a\x07", "", "warn a control character"},
		{"bash -c with \u201ca text\u201d\u00a0!", "", "ok"},
		{"--title=Bob\u2019s", "", "ok"},
		{"export A=1\nexport B=2\n", "", "ok"},
		{"--name=gr\u00fc\u00dfe", "", "ok"},
	} {
		in := checktest.Env(checktest.Four(), "MASTER_ADDR", tc.variable)
		in.Job.Line.Argv = []string{"python", "t.py", tc.arg}
		checktest.Wants(t, checktest.Verdict(t, Checks(), "command.characters", in), tc.want)
	}
	in := checktest.Four()
	in.Job.Windows = []string{"/w/job.env"}
	f := checktest.Verdict(t, Checks(), "command.characters", in)
	checktest.Wants(t, f, "warn /w/job.env has Windows line ends")
	if f.Fix != `sed -i 's/\r$//' /w/job.env` {
		t.Errorf("%q", f.Fix)
	}
}

func TestTheNameOfASocketFitsIntoTheFolderForTemporaryFiles(t *testing.T) {
	for n, want := range map[int]finding.Status{0: finding.Pass, 75: finding.Pass, 76: finding.Warn} {
		in := checktest.Env(checktest.Four(), "TMPDIR", strings.Repeat("/", min(n, 1))+strings.Repeat("a", max(n-1, 0)))
		if got := checktest.Verdict(t, Checks(), "env.tmpdir", in); got.Status != want {
			t.Errorf("%d bytes: %+v", n, got)
		}
	}
}
