package sandbox

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// cgroupManager creates a control group of version 2 for each launch, below a parent
// group of the worker.
type cgroupManager struct {
	parent      string          // directory; "" where there are no control groups
	controllers map[string]bool // that the groups of launches have
	canKill     bool            // the kernel supports cgroup.kill
	guard       *guard          // kills all groups when the worker ends; nil without canKill
	opts        Options
	stateFile   string // records the parent for the next worker
}

// openCgroupManager removes the groups of an earlier worker, creates the parent
// group and finds out what its groups support.
func openCgroupManager(state string, opts Options, found findings) (*cgroupManager, error) {
	g := &cgroupManager{controllers: map[string]bool{}, opts: opts, stateFile: filepath.Join(state, ".cgroups")}
	hash := sha256.Sum256([]byte(state))
	own, err := ownGroup()
	parent := filepath.Join(own, fmt.Sprintf("svc-%x", hash[:6]))
	parents := g.readStateFile()
	if err == nil {
		parents = append(parents, parent)
	}
	g.sweep(parents)
	if err == nil {
		err = g.open(own, parent, found)
	}
	if err != nil {
		g.disable(found, err)
		return g, nil
	}
	raw, err := json.Marshal([]string{g.parent})
	if err != nil {
		return nil, err
	}
	if err := replaceFile(g.stateFile, raw); err != nil {
		return nil, fmt.Errorf("control groups: %w", err)
	}
	// Started last, so that no failure leaks the guard and it does not block moving processes between groups.
	if g.canKill {
		guard, err := startGuard(g.parent)
		if err != nil {
			found.disable(CgroupKill, err)
		}
		g.guard, g.canKill = guard, err == nil
	}
	return g, nil
}

// open creates the parent below the worker's own group, finds out what groups support, and
// creates one as for a launch.
func (g *cgroupManager) open(own, parent string, found findings) error {
	if !found.enabled(CgroupKill) && !found.enabled(MemoryLimit) && !found.enabled(ProcessLimit) {
		return errors.New("switched off")
	}
	if err := os.Mkdir(parent, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("create control group: %w", err)
	}
	g.parent = parent
	if _, err := os.Stat(filepath.Join(parent, "cgroup.kill")); err != nil {
		found.disable(CgroupKill, errors.New("the kernel does not support cgroup.kill (Linux 5.14 or later does)"))
	}
	g.canKill = found.enabled(CgroupKill)
	for piece, controller := range map[string]string{MemoryLimit: memoryController, ProcessLimit: pidsController} {
		if !found.enabled(piece) {
			continue
		}
		err := enableController(own, controller)
		if err == nil {
			err = writeFile(parent, "cgroup.subtree_control", "+"+controller)
		}
		if err != nil {
			found.disable(piece, err)
		}
		g.controllers[controller] = err == nil
	}
	trial, err := g.newCgroup()
	if err != nil {
		return err
	}
	return trial.remove()
}

// newCgroup creates a launch's group with its limits.
func (g *cgroupManager) newCgroup() (*cgroup, error) {
	if g.parent == "" {
		return &cgroup{manager: g}, nil
	}
	created := &cgroup{manager: g, dir: filepath.Join(g.parent, strings.ToLower(rand.Text())[:12])}
	err := os.Mkdir(created.dir, 0o755)
	if err == nil {
		err = created.setLimits(g.opts)
	}
	if err != nil {
		_ = created.remove()
		return nil, fmt.Errorf("control group: %w", err)
	}
	return created, nil
}

// sweep removes the groups of an earlier worker: those below the parents in its
// state file, which may differ from this worker's, and those below this worker's
// parent, in case the file is lost or damaged.
func (g *cgroupManager) sweep(parents []string) {
	slices.Sort(parents)
	for _, parent := range slices.Compact(parents) {
		g.sweepParent(parent)
	}
	_ = os.Remove(g.stateFile)
}

// readStateFile returns the parents recorded by an earlier worker.
func (g *cgroupManager) readStateFile() []string {
	raw, err := os.ReadFile(g.stateFile)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	var parents []string
	if err == nil {
		err = json.Unmarshal(raw, &parents)
	}
	if err != nil {
		g.opts.Log.Warn("failed to read control groups of an earlier worker; only those in this worker's own group are removed",
			"file", g.stateFile, "error", err)
		return nil
	}
	return parents
}

// sweepParent removes a parent and the groups in it.
func (g *cgroupManager) sweepParent(parent string) {
	entries, err := os.ReadDir(parent)
	if err != nil {
		return // does not exist
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		if err := removeCgroup(filepath.Join(parent, e.Name())); err != nil {
			g.opts.Log.Error("failed to remove control group of an earlier worker", "error", err)
		}
	}
	_ = os.Remove(parent)
}

// replaceFile writes a file atomically.
func replaceFile(path string, raw []byte) error {
	if err := os.WriteFile(path+".new", raw, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// disable switches control groups off. None may have processes.
func (g *cgroupManager) disable(found findings, err error) {
	g.close()
	g.parent, g.controllers, g.canKill = "", nil, false
	for _, name := range []string{MemoryLimit, ProcessLimit, CgroupKill} {
		found.disable(name, err)
	}
}

// close removes the parent. All launches must have ended.
func (g *cgroupManager) close() {
	if g.guard != nil {
		g.guard.stop()
		g.guard = nil
	}
	_ = os.Remove(g.parent)
	_ = os.Remove(g.stateFile)
}
