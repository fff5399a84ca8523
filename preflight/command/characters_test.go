package command

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"launch/internal/finding"
	"launch/preflight/checktest"
)

func TestCharactersThatAreNotSeen(t *testing.T) {
	for _, tc := range []struct{ arg, variable, want string }{
		{"--lr=1e-3", "10.0.0.1", "ok"},
		{"--master-addr=10.0.0.1\r", "",
			"warn argument 2 of the command (--master-addr) has a carriage return (\\r), U+000D, its last character"},
		{"", "10.0.0.1\r", "warn the variable MASTER_ADDR has a carriage return"},
		{"--lr\u00a01e-3", "", "warn a special space, at which no shell separates words, U+00A0, after 4 characters"},
		{"\u201ctrain.py\u201d", "", "warn a typographic quote, U+201C, its first character"},
		{"--out=a\x07", "", "warn a control character"},
		{"bash -c with \u201ca text\u201d\u00a0!", "", "ok"},
		{"--title=Bob\u2019s", "", "ok"},
		{"export A=1\nexport B=2\n", "", "ok"},
		{"--name=gr\u00fc\u00dfe", "", "ok"},
		{"\u2013-lr=3", "", "warn argument 2 of the command has U+2013 where an option has a hyphen-minus"},
		{"\u2014epochs", "", "warn has U+2014"},
		{"-\u2013epochs", "", "warn has U+2013"},
		{"--range=10\u201320", "", "ok"},
		{"\u2013", "", "ok"},
		{"\u2014a text", "", "ok"},
		{"\u22125", "", "ok"},
	} {
		in := checktest.Env(checktest.Four(), "MASTER_ADDR", tc.variable)
		in.Job.Line.Argv = []string{"python", "t.py", tc.arg}
		checktest.Wants(t, checktest.Verdict(t, Checks(), "command.characters", in), tc.want)
	}
	in := checktest.Four()
	in.Job.Line.Argv = []string{"python", "t.py", "--prompt", "\u2014hello"}
	checktest.Wants(t, checktest.Verdict(t, Checks(), "command.characters", in), "ok")
	in = checktest.Four()
	in.Job.Windows = []string{"/w/job.env"}
	f := checktest.Verdict(t, Checks(), "command.characters", in)
	checktest.Wants(t, f, "warn /w/job.env has Windows line ends")
	if f.Fix != `sed -i 's/\r$//' /w/job.env` {
		t.Errorf("%q", f.Fix)
	}
}

// A value may be a secret.
func TestTheValueWithSuchACharacterIsNotShown(t *testing.T) {
	const secret = "sk-secret"
	for _, argv := range [][]string{{"--api-key", secret + "\r"}, {"--api-key=" + secret + "\r"}, {secret + "==\r"},
		{"-p" + secret, "x\r"}, {"-p" + secret + "\r"}, {"--" + secret + "\r"}, {"--note=" + secret + " " + secret + "\r"}} {
		in := checktest.Env(checktest.Four(), "PYTHONPATH", "/home/"+secret+"\u00a0")
		in.Job.Line.Argv = append([]string{"python", "t.py"}, argv...)
		in.Job.Decided = slices.Grow(in.Job.Decided, 1)[:1]
		in.Job.Decided[0].Name, in.Job.Decided[0].Value = "WANDB_API_KEY", secret+"\r"
		found := 0
		for _, f := range characters(t.Context(), in) {
			if found++; strings.Contains(fmt.Sprintf("%+v", f), secret) {
				t.Errorf("%q: %+v", argv, f)
			}
		}
		if found != 3 {
			t.Errorf("%q: %d findings", argv, found)
		}
	}
	in := checktest.Four()
	in.Job.Line.Argv = []string{"python", "t.py", "--api-key", secret + "\r"}
	checktest.Wants(t, checktest.Verdict(t, Checks(), "command.characters", in),
		"warn argument 3 of the command (--api-key)")
}

func TestTheNameOfASocketFitsIntoTheFolderForTemporaryFiles(t *testing.T) {
	for n, want := range map[int]finding.Status{0: finding.Pass, 75: finding.Pass, 76: finding.Warn} {
		in := checktest.Env(checktest.Four(), "TMPDIR", strings.Repeat("/", min(n, 1))+strings.Repeat("a", max(n-1, 0)))
		if got := checktest.Verdict(t, Checks(), "env.tmpdir", in); got.Status != want {
			t.Errorf("%d bytes: %+v", n, got)
		}
	}
}
