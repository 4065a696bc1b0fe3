package isolation

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

// groups makes a control group for each launch, below one of its own in each
// hierarchy that is of use.
type groups struct {
	parents map[string]string // directories, by hierarchy
	home    map[string]string // which hierarchy a controller is in; none when it is not to be had
	kills   bool              // the kernel ends whole groups
	guard   *guard            // which has it end them with the worker; nil unless it can
	opts    Options
	state   string // the file that names the parents, for the next worker
}

// openGroups removes what an earlier worker left, makes the parents, and finds
// out what they are good for.
func openGroups(state string, opts Options, found findings) (*groups, error) {
	g := &groups{
		parents: map[string]string{}, home: map[string]string{}, opts: opts, state: filepath.Join(state, ".cgroups"),
	}
	g.sweep()
	h := findHierarchies()
	hash := sha256.Sum256([]byte(state))
	name := fmt.Sprintf("svc-%x", hash[:6])
	if found.on(CgroupKill) {
		if err := g.openKill(h, name); err != nil {
			found.off(CgroupKill, err)
		}
	}
	for piece, controller := range map[string]string{MemoryLimit: memoryController, ProcessLimit: pidsController} {
		if !found.on(piece) {
			continue
		}
		if err := g.openLimit(h, name, controller); err != nil {
			found.off(piece, err)
		}
	}
	if len(g.parents) == 0 {
		return g, nil
	}
	raw, err := json.Marshal(slices.Collect(maps.Values(g.parents)))
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(g.state, raw, 0o600); err != nil {
		return nil, fmt.Errorf("control groups: %w", err)
	}
	// Not before: nothing that fails may leave it behind, nor may it be in the way while groups are arranged.
	if g.kills {
		guard, err := startGuard(g.parents[unified])
		if err != nil {
			found.off(CgroupKill, err)
		}
		g.guard, g.kills = guard, err == nil
	}
	return g, nil
}

// openKill makes the parent in the unified hierarchy, whose groups the kernel
// can end.
func (g *groups) openKill(h hierarchies, name string) error {
	if err := g.adopt(unified, h.unified, name); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(g.parents[unified], "cgroup.kill")); err != nil {
		return errors.New("the kernel can't end whole control groups (Linux 5.14 can)")
	}
	g.kills = true
	return nil
}

// openLimit makes a parent whose groups have the controller.
func (g *groups) openLimit(h hierarchies, name, controller string) error {
	if first := h.first[controller]; first != "" {
		g.home[controller] = controller
		return g.adopt(controller, first, name)
	}
	if err := g.adopt(unified, h.unified, name); err != nil {
		return err
	}
	if err := h.enable(controller); err != nil {
		return err
	}
	g.home[controller] = unified
	return write(g.parents[unified], "cgroup.subtree_control", "+"+controller)
}

// adopt makes the parent in a hierarchy.
func (g *groups) adopt(hierarchy, own, name string) error {
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

// group makes a launch's groups, with their bounds.
func (g *groups) group() (*group, error) {
	one := &group{dirs: map[string]string{}, of: g}
	name := strings.ToLower(rand.Text())[:12]
	for hierarchy, parent := range g.parents {
		dir := filepath.Join(parent, name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			_ = one.remove()
			return nil, fmt.Errorf("control group: %w", err)
		}
		one.dirs[hierarchy] = dir
	}
	if err := one.bound(g.opts); err != nil {
		_ = one.remove()
		return nil, fmt.Errorf("control group: %w", err)
	}
	return one, nil
}

// sweep ends and removes the groups of an earlier worker.
func (g *groups) sweep() {
	raw, err := os.ReadFile(g.state)
	if err != nil {
		return
	}
	var parents []string
	if err := json.Unmarshal(raw, &parents); err != nil {
		return
	}
	for _, parent := range parents {
		entries, _ := os.ReadDir(parent)
		for _, e := range entries {
			if e.IsDir() {
				_ = removeGroup(filepath.Join(parent, e.Name()))
			}
		}
		_ = os.Remove(parent)
	}
	_ = os.Remove(g.state)
}

// close removes the parents. No launch may be left.
func (g *groups) close() {
	if g.guard != nil {
		g.guard.end()
		g.guard = nil
	}
	for _, dir := range g.parents {
		_ = os.Remove(dir)
	}
	_ = os.Remove(g.state)
}
