package logs

import "strings"

// Lines of the stack of a process that crashed: of Open MPI, which names the host, and of UCX and glibc.
const (
	mpiFrame  = `^\[[\w.-]+:\d+\] \[ ?\d+\] \S*/`
	ownFrame  = `^ *(?:\d+ +|\[ ?\d+\] +)\S*/`
	frameTail = `(?P<lib>lib[a-zA-Z]\w*|mca_\w+)[\w.-]*?\.so[\w.]*\((?P<func>[A-Za-z_]\w+)\+0x`
)

// stackWords are parts of names of libraries in such lines.
var stackWords = []string{".so(", ".so."}

// inLibrary returns a row for a frame in a library, the innermost of which says where a process crashed.
func inLibrary(form form, with string) cause {
	return cause{id: exitCrash.id, grade: family, with: with, words: stackWords, form: form, test: notHandler,
		says: "{who} crashed in {lib} (function {func}): a bug of that library, or of its caller, or libraries that do not " +
			"fit together",
		do: "compare the version of {lib} on all nodes and what the program was built with (ldd); try a newer one, and " +
			"look at the lines before the crash",
		need: []string{"the whole stack (a core file and gdb)", "the output of that rank before the crash"},
		from: "Open MPI opal_stacktrace, UCX debug.c"}
}

// inUCX returns a row for a frame in UCX.
func inUCX(words []string, form form, with string) cause {
	return cause{id: exitCrash.id, grade: family, with: with, words: words, form: form,
		says: "{who} crashed in UCX ({func}): a bug of UCX, or memory that it cannot read, as of a GPU where UCX or MPI " +
			"was built without CUDA or ROCm",
		do: "use an MPI and a UCX with GPU support (ompi_info --parsable --all | grep mpi_built_with_cuda_support, " +
			"ucx_info -v), with cuda_copy or rocm_copy in UCX_TLS, or copy the buffers to the host before MPI gets them; " +
			"without GPU buffers try a newer UCX",
		need: []string{"the whole stack, and which buffer the program sends", "ucx_info -v and -d of that node"},
		from: "openucx/ucx"}
}

// stackCauses are frames of the stack of a crash.
var stackCauses = []cause{
	inUCX(stackWords, re(mpiFrame+`(?:libuc[pt]|mca_\w*ucx)[\w.-]*\.so[\w.]*\((?P<func>[a-z]\w+)\+0x`), ""),
	inUCX(stackWords, re(ownFrame+`libuc[pt][\w.-]*\.so[\w.]*\((?P<func>[a-z]\w+)\+0x`), "crash.signal"),
	inUCX([]string{" uct_", " ucp_"}, re(`^ *\d+ +0x[\da-f]+ (?P<func>uc[pt]_\w+)\(\)`), "crash.signal"),
	inLibrary(re(mpiFrame+frameTail), ""),
	inLibrary(re(ownFrame+frameTail), "crash.signal"),
}

// notHandler says whether a frame is not one of the C library, or of those who write the stack.
func notHandler(vals map[string]string) bool {
	for _, lib := range []string{"libc", "libpthread", "libucs", "libopen", "libpython", "libgcc", "libstdc", "libasan"} {
		if vals["lib"] == lib || len(lib) > len("libc") && strings.HasPrefix(vals["lib"], lib) {
			return false
		}
	}
	return true
}
