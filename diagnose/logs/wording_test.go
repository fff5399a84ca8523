package logs

import "testing"

// TestWordsThatOtherProgramsWrite: the line before is not why the program failed.
func TestWordsThatOtherProgramsWrite(t *testing.T) {
	const failure = "Traceback (most recent call last):\n  File \"/app/train.py\", line 3, in <module>\n    main()\n" +
		"ValueError: the sizes differ\n"
	for _, line := range []string{
		"rclone: Unreachable remote gdrive, skipping",
		"monitor: Unresponsive remote (no answer), trying again",
		"httpx: Connection was reset by remote peer, trying again",
		"mailer: Receiver connection aborted",
		"[W202 10:00:00.1 gloo/transport/tcp/pair.cc:100] failed to connect, willRetry=1, retry=0, rank=1, " +
			"error=connect: Network is unreachable",
		"[W202 10:00:00.1 gloo/transport/tcp/pair.cc:100] failed to connect, willRetry=1, retry=0, rank=1, " +
			"error=SO_ERROR: No route to host, remote=[10.9.0.2]:4",
		"red-3:1:2 [0] misc/ibvwrap.cc:1 NCCL INFO Call to ibv_modify_qp failed with 110 Connection timed out",
		"readme: drain the node if a GPU is lost, or if \"GPU requires reset\" is in its log",
		"check.cu:33:12: warning: enumeration value 'cudaErrorContained' not handled in switch [-Wswitch]",
		"check.cu:33:12: warning: enumeration value 'cudaErrorMpsConnectionFailed' not handled in switch [-Wswitch]",
		"check.cu:33:12: warning: enumeration value 'cudaErrorLaunchTimeout' not handled in switch [-Wswitch]",
		"check.cu:33:12: warning: enumeration value 'cudaErrorUnknown' not handled in switch [-Wswitch]",
		"check.cu:33:12: warning: enumeration value 'cudaErrorCompatNotSupportedOnDevice' not handled [-Wswitch]",
	} {
		r := readText(t, line+"\n"+failure)
		if r.First == nil || r.First.Cause != "rank.failed" {
			t.Errorf("%s: %+v", line, r.First)
		}
	}
}
