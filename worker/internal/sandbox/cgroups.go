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

// unified names the one hierarchy of the second version of control groups,
// where the others have the names of their controllers.
const unified = "unified"

// cgroupManager makes a control group for each launch, below one of its own in each
// hierarchy that is of use.
type cgroupManager struct {
	parents             map[string]string // directories, by hierarchy
	controllerHierarchy map[string]string // which hierarchy a controller is in; none when it is not to be had
	canKill             bool              // the kernel ends whole groups
	guard               *guard            // which has it end them with the worker; nil unless it can
	opts                Options
	stateFile           string // the file that names the parents, for the next worker
}

// openCgroupManager removes what an earlier worker left, makes the parents, and finds
// out what they are good for.
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
	raw, err := json.Marshal(slices.Collect(maps.Values(g.parents)))
	if err != nil {
		return nil, err
	}
	if err := replaceFile(g.stateFile, raw); err != nil {
		return nil, fmt.Errorf("control groups: %w", err)
	}
	// Not before: nothing that fails may leave it behind, nor may it be in the way while groups are arranged.
	if g.canKill {
		guard, err := startGuard(g.parents[unified])
		if err != nil {
			found.disable(CgroupKill, err)
		}
		g.guard, g.canKill = guard, err == nil
	}
	return g, nil
}

// openKill makes the parent in the unified hierarchy, whose groups the kernel
// can end.
func (g *cgroupManager) openKill(h hierarchies, name string) error {
	if err := g.createParent(unified, h.unified, name); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(g.parents[unified], "cgroup.kill")); err != nil {
		return errors.New("the kernel can't end whole control groups (Linux 5.14 can)")
	}
	g.canKill = true
	return nil
}

// openLimit makes a parent whose groups have the controller.
func (g *cgroupManager) openLimit(h hierarchies, name, controller string) error {
	if first := h.v1[controller]; first != "" {
		g.controllerHierarchy[controller] = controller
		return g.createParent(controller, first, name)
	}
	if err := g.createParent(unified, h.unified, name); err != nil {
		return err
	}
	if err := h.enable(controller); err != nil {
		return err
	}
	g.controllerHierarchy[controller] = unified
	return writeFile(g.parents[unified], "cgroup.subtree_control", "+"+controller)
}

// createParent makes the parent in a hierarchy.
func (g *cgroupManager) createParent(hierarchy, own, name string) error {
	if own == "" {
		return fmt.Errorf("there is no %s hierarchy of control groups", hierarchy)
	}
	dir := filepath.Join(own, name)
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("control groups can't be made: %w", err)
	}
	g.parents[hierarchy] = dir
	return nil
}

// cgroup makes a launch's groups, with their bounds.
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

// sweep ends and removes the groups of an earlier worker: those below the parents
// that its file names, which may be in another place than this worker's, and
// those below this worker's parents, for when the file is lost or damaged.
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

// readStateFile are the parents that the file of an earlier worker names.
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
		g.opts.Log.Warn("the record of an earlier worker's control groups can't be read: those in this worker's own group are removed, others may be left",
			"file", g.stateFile, "error", err)
		return nil
	}
	return parents
}

// sweepParent removes a parent and the groups in it.
func (g *cgroupManager) sweepParent(parent string) {
	entries, err := os.ReadDir(parent)
	if err != nil {
		return // there is none
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		if err := removeCgroup(filepath.Join(parent, e.Name())); err != nil {
			g.opts.Log.Error("an earlier worker's control group is left", "error", err)
		}
	}
	_ = os.Remove(parent)
}

// replaceFile writes a file that a reader finds whole, or as it was before.
func replaceFile(path string, raw []byte) error {
	if err := os.WriteFile(path+".new", raw, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// close removes the parents. No launch may be left.
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
