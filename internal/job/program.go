package job

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"launch/internal/launcher"
)

// Program is what the text of a Python program says.
type Program struct {
	// Modules are the files that the script imports from its own folder, from PYTHONPATH and from folders that it adds to
	// sys.path, outside of site-packages: absolute, without the script.
	Modules []string
	// Imports are the other packages that the script and these files import, by their names: installed ones, and those of
	// the standard library.
	Imports []string
	// Spawns: the script starts its ranks itself (torch.multiprocessing.spawn).
	Spawns bool
	// Counts is what the script counts where it starts its ranks itself (torch.multiprocessing.spawn): "" is neither.
	Counts Counted
	// Reads are relative paths of files that the script reads, as it names them.
	Reads []string
}

// Counted is what a script counts to know how many ranks it starts.
type Counted string

// The processors that the process may use, all of the machine, and the GPUs.
const (
	CountsAffinity   Counted = "affinity"
	CountsProcessors Counted = "processors"
	CountsGPUs       Counted = "GPUs"
)

var (
	spawnsRanks = regexp.MustCompile(`\b(?:mp|multiprocessing)\s*\.\s*(?:spawn|start_processes)\s*\(|` +
		`\bimport\s+(?:spawn|start_processes)\b|\bnotebook_launcher\s*\(`)
	// givesNumber matches an argument that may be the number of ranks.
	givesNumber = regexp.MustCompile(`(?i)(?:^|\s)-{0,2}\S*(?:proc|gpu|rank[s=]|device|worker|world)\S*[=\s]\d`)
	counting    = []struct {
		re *regexp.Regexp
		of Counted
	}{
		{regexp.MustCompile(`\b(?:sched_getaffinity|process_cpu_count)\s*\(`), CountsAffinity},
		{regexp.MustCompile(`\bcpu_count\s*\(`), CountsProcessors},
		{regexp.MustCompile(`\bdevice_count\s*\(`), CountsGPUs},
	}
	// readsFile matches a call that reads or looks for a file with a literal name.
	readsFile = regexp.MustCompile(`\b(?:open|load|exists|isfile|isdir|listdir|glob|Path|read_csv|load_dataset|` +
		`from_pretrained)\(\s*["']([\w.][^"'\n]*)["']\s*(?:\)|,\s*(?:["']r[bt]?["']|map_location|weights_only))`)
	addsFolder = regexp.MustCompile(`\bsys\.path\.(?:insert\(\s*\d+\s*,|append\()\s*["'](/[^"'\n]+)["']`)
)

// Limits of what a program's text may name.
const maxReads, maxFolders, maxImports = 8, 4, 128

// said returns what the text of the program says.
func (r *resolver) said() (p Program) {
	if len(r.files) == 0 {
		return p
	}
	for _, f := range r.files[1:] {
		if f.text != "" {
			p.Modules = append(p.Modules, f.name)
		}
	}
	p.Imports = r.foreign
	text := r.files[0].text
	for _, m := range readsFile.FindAllStringSubmatch(text, -1) {
		name := m[1]
		if strings.Contains(name, "/") && !strings.ContainsAny(name, "*{}%:") && !slices.Contains(p.Reads, name) &&
			len(p.Reads) < maxReads {
			p.Reads = append(p.Reads, name)
		}
	}
	p.Spawns = spawnsRanks.MatchString(text) && r.line.Kind == launcher.Program
	if !p.Spawns || givesNumber.MatchString(strings.Join(r.line.Argv, " ")) {
		return p
	}
	for _, c := range counting {
		if p.Counts == "" && c.re.MatchString(text) {
			p.Counts = c.of
		}
	}
	return p
}

// folders returns where Python looks for the modules of a script with this text, besides its own folder.
func (r *resolver) folders(text string) (out []string) {
	var all []string
	for _, m := range addsFolder.FindAllStringSubmatch(text, -1) {
		all = append(all, m[1])
	}
	all = append(all, strings.Split(r.env["PYTHONPATH"], ":")...)
	for _, dir := range all {
		dir = path.Clean(dir)
		if path.IsAbs(dir) && len(out) < maxFolders && !strings.Contains(dir, "-packages") {
			out = append(out, dir)
		}
	}
	return out
}

// sourced matches a line by which a shell reads another file.
var sourced = regexp.MustCompile(`(?m)(?:^|[;&|]|\bthen\b)[ \t]*(?:\.|source)[ \t]+["']?([^\s"';&|]+)`)

// variable matches a variable of a shell: $NAME or ${NAME}.
var variable = regexp.MustCompile(`\$(?:(\w+)|\{(\w+)\})`)

// windows returns the files with Windows line ends that the shell of the command's script reads.
func (r *resolver) windows() (out []string) {
	script, text := r.shellScript()
	if script == "" {
		return nil
	}
	names := []string{script}
	for _, m := range sourced.FindAllStringSubmatch(text, -1) {
		name := variable.ReplaceAllStringFunc(m[1], func(v string) string { return r.env[strings.Trim(v, "${}")] })
		if name != "" && !strings.Contains(name, "$") && len(names) < maxReads {
			names = append(names, name)
		}
	}
	for _, name := range names {
		if strings.Contains(head(r.in.Root, r.absolute(name)), "\r\n") && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}
