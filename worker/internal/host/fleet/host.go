package fleet

import (
	"io/fs"
	"os"
	"runtime"
	"strings"
)

// Facts are facts about the machine, as far as this process may use it. They are
// constant for a boot, except for limits that an operator changes.
type Facts struct {
	Hostname    string
	OS          string // as Go names it: linux
	Arch        string // as Go names it: amd64, arm64
	CPUs        float64
	MemoryBytes uint64
	Kernel      string // release
}

// Host returns the facts of this machine. It returns an error if the kernel's files
// cannot be read.
func Host() (Facts, error) { return readFacts(os.DirFS("/")) }

func readFacts(root fs.FS) (Facts, error) {
	facts := Facts{OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: usableCPUs(root)}
	if facts.CPUs == 0 {
		facts.CPUs = float64(runtime.NumCPU())
	}
	m, err := readMemory(root)
	if err != nil {
		return Facts{}, err
	}
	facts.MemoryBytes = m.limit
	for file, into := range map[string]*string{"hostname": &facts.Hostname, "osrelease": &facts.Kernel} {
		text, err := fs.ReadFile(root, "proc/sys/kernel/"+file)
		if err != nil {
			return Facts{}, err
		}
		*into = strings.TrimSpace(string(text))
	}
	return facts, nil
}
