package sandbox

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// unified is the name of the cgroup v2 hierarchy. The v1 hierarchies are named
// after their controllers.
const unified = "unified"

// cgroupManager creates a control group for each launch, below a parent group of
// the worker in each hierarchy in use.
type cgroupManager struct {
	parents             map[string]string // directories, by hierarchy
	controllerHierarchy map[string]string // hierarchy by controller; missing if unavailable
	canKill             bool              // the kernel supports cgroup.kill
	guard               *guard            // kills all groups when the worker ends; nil without canKill
	opts                Options
	stateFile           string // records the parents for the next worker
}

// openCgroupManager removes the groups of an earlier worker, creates the parent
// groups and finds out which limits they support.
func openCgroupManager(state string, opts Options, found findings) (*cgroupManager, error) {
	g := &cgroupManager{
		parents: map[string]string{}, controllerHierarchy: map[string]string{}, opts: opts, stateFile: filepath.Join(state, ".cgroups"),
	}
	h := readHierarchies()
	hash := sha256.Sum256([]byte(state))
	name := fmt.Sprintf("svc-%x", hash[:6])
	g.sweep(h, name)
	if found.enabled(CgroupKill) {
		if err := g.openKill(h, name); err != nil {
			found.disable(CgroupKill, err)
		}
	}
	for piece, controller := range map[string]string{MemoryLimit: memoryController, ProcessLimit: pidsController} {
		if !found.enabled(piece) {
			continue
		}
		if err := g.openLimit(h, name, controller); err != nil {
			found.disable(piece, err)
		}
	}
	if len(g.parents) == 0 {
		return g, nil
	}
	trial, err := g.newCgroup()
	if err == nil {
		err = trial.remove()
	}
	if err != nil {
		g.disable(found, err)
		return g, nil
	}
	raw, err := json.Marshal(slices.Collect(maps.Values(g.parents)))
	if err != nil {
		return nil, err
	}
	if err := replaceFile(g.stateFile, raw); err != nil {
		return nil, fmt.Errorf("control groups: %w", err)
	}
	// Started last, so that no failure leaks the guard and it does not block moving processes between groups.
	if g.canKill {
		guard, err := startGuard(g.parents[unified])
		if err != nil {
			found.disable(CgroupKill, err)
		}
		g.guard, g.canKill = guard, err == nil
	}
	return g, nil
}

// openKill creates the parent in the v2 hierarchy and checks that the kernel
// supports cgroup.kill.
func (g *cgroupManager) openKill(h hierarchies, name string) error {
	if err := g.createParent(unified, h.unified, name); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(g.parents[unified], "cgroup.kill")); err != nil {
		return errors.New("the kernel does not support cgroup.kill (Linux 5.14 or later does)")
	}
	g.canKill = true
	return nil
}

// openLimit creates a parent whose groups have the controller.
func (g *cgroupManager) openLimit(h hierarchies, name, controller string) error {
	if first := h.v1[controller]; first != "" {
		if err := g.createParent(controller, first, name); err != nil {
			return err
		}
		g.controllerHierarchy[controller] = controller
		return nil
	}
	if err := g.createParent(unified, h.unified, name); err != nil {
		return err
	}
	if err := h.enable(controller); err != nil {
		return err
	}
	if err := writeFile(g.parents[unified], "cgroup.subtree_control", "+"+controller); err != nil {
		return err
	}
	g.controllerHierarchy[controller] = unified
	return nil
}

// createParent creates the worker's parent group in a hierarchy.
func (g *cgroupManager) createParent(hierarchy, own, name string) error {
	if own == "" {
		return fmt.Errorf("no %s cgroup hierarchy is mounted", hierarchy)
	}
	dir := filepath.Join(own, name)
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("create control group: %w", err)
	}
	g.parents[hierarchy] = dir
	return nil
}

// newCgroup creates a launch's group with its limits.
func (g *cgroupManager) newCgroup() (*cgroup, error) {
	one := &cgroup{dirs: map[string]string{}, manager: g}
	name := strings.ToLower(rand.Text())[:12]
	for hierarchy, parent := range g.parents {
		dir := filepath.Join(parent, name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			_ = one.remove()
			return nil, fmt.Errorf("control group: %w", err)
		}
		one.dirs[hierarchy] = dir
	}
	if err := one.setLimits(g.opts); err != nil {
		_ = one.remove()
		return nil, fmt.Errorf("control group: %w", err)
	}
	return one, nil
}

// sweep removes the groups of an earlier worker: those below the parents in its
// state file, which may differ from this worker's, and those below this worker's
// parents, in case the file is lost or damaged.
func (g *cgroupManager) sweep(h hierarchies, name string) {
	parents := g.readStateFile()
	for _, own := range append(slices.Collect(maps.Values(h.v1)), h.unified) {
		if own != "" {
			parents = append(parents, filepath.Join(own, name))
		}
	}
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
	g.parents, g.controllerHierarchy, g.canKill = nil, nil, false
	for _, name := range []string{MemoryLimit, ProcessLimit, CgroupKill} {
		found.disable(name, err)
	}
}

// close removes the parents. All launches must have ended.
func (g *cgroupManager) close() {
	if g.guard != nil {
		g.guard.stop()
		g.guard = nil
	}
	for _, dir := range g.parents {
		_ = os.Remove(dir)
	}
	_ = os.Remove(g.stateFile)
}
