package gpu

// xid is a fault in the kernel log that is due to the hardware, or that leaves the GPU
// unusable until a reset.
type xid struct {
	code  int
	means string
}

// xids returns rows of NVIDIA's XID catalog ("Analyzing Xid Errors with the Xid Catalog",
// docs.nvidia.com/deploy/xid-errors): those whose immediate action is to reset the GPU (RESET_GPU),
// to restart the machine (RESTART_BM) or to look at cables (CHECK_MECHANICALS), or which have the
// workflow of a double bit error or of NVLink. The action follows each row. Not here are those with
// RESTART_APP or IGNORE (13, 31, 43, 45, 63, 94, …), which are an application's own or over, and
// 109 and 155, which hung programs and sleeping links cause, too.
func xids() []xid {
	return []xid{
		{46, "the GPU stopped processing"},               // RESET_GPU
		{48, "uncorrectable memory error"},               // WORKFLOW_XID_48: reset or reboot clears it
		{54, "no auxiliary power"},                       // CHECK_MECHANICALS
		{62, "its microcontroller halted"},               // RESET_GPU
		{64, "a bad memory row could not be replaced"},   // RESET_GPU
		{74, "NVLink error"},                             // WORKFLOW_NVLINK_ERR (Ampere, Hopper)
		{79, "it fell off the bus"},                      // RESTART_BM
		{95, "uncontained memory error"},                 // RESET_GPU
		{110, "security fault"},                          // RESET_GPU
		{119, "its GSP did not answer"},                  // RESET_GPU
		{120, "error in its GSP"},                        // RESET_GPU
		{136, "NVLink training failed"},                  // RESET_GPU
		{140, "uncorrectable memory error, not handled"}, // RESET_GPU
		{143, "it could not be initialized"},             // RESET_GPU
		{158, "fatal timeout"},                           // RESET_GPU
	}
}

// xidMeans returns the meaning of a code, or "" if the table does not have it.
func xidMeans(code int) string {
	for _, x := range xids() {
		if x.code == code {
			return x.means
		}
	}
	return ""
}
