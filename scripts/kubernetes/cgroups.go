package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	cgroup      = "svc-kubernetes" // the control group of all nodes
	cgroupMount = "/sys/fs/cgroup"
)

// hierarchies returns the control group hierarchies: several of version 1, or the one of version 2.
func hierarchies() ([]string, error) {
	if _, err := os.Stat(filepath.Join(cgroupMount, "cgroup.controllers")); err == nil {
		return []string{cgroupMount}, nil
	}
	return filepath.Glob(cgroupMount + "/*")
}

// createCgroup creates the control group of a node, which its kubelet expects.
func createCgroup(node string) error {
	all, err := hierarchies()
	if err != nil {
		return err
	}
	for _, hierarchy := range all {
		parent := hierarchy
		for _, name := range []string{cgroup, node} {
			group := filepath.Join(parent, name)
			if err := os.MkdirAll(group, 0o755); err != nil {
				return err
			}
			for _, setting := range []string{"cpuset.cpus", "cpuset.mems"} { // version 1 does not inherit them
				value, err := os.ReadFile(filepath.Join(parent, setting))
				if errors.Is(err, fs.ErrNotExist) {
					continue
				}
				if err != nil {
					return err
				}
				if err := os.WriteFile(filepath.Join(group, setting), value, 0o644); err != nil { //nolint:gosec // a control group of this machine
					return err
				}
			}
			parent = group
		}
	}
	return nil
}

// killCgroup kills all processes in the control group of a node.
func killCgroup(node string) error {
	all, err := hierarchies()
	if err != nil {
		return err
	}
	for range 100 { // until those are gone that started meanwhile
		left := 0
		for _, hierarchy := range all {
			err := filepath.WalkDir(filepath.Join(hierarchy, cgroup, node), func(path string, entry fs.DirEntry, err error) error {
				if err != nil || entry.Name() != "cgroup.procs" {
					return ignoreNotExist(err)
				}
				text, err := os.ReadFile(path) //nolint:gosec // a control group of this machine
				for id := range strings.FieldsSeq(string(text)) {
					left++
					process, err := strconv.Atoi(id)
					if err != nil {
						return err
					}
					_ = syscall.Kill(process, syscall.SIGKILL) // it may have ended
				}
				return ignoreNotExist(err)
			})
			if err != nil {
				return err
			}
		}
		if left == 0 {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return fmt.Errorf("processes of %s continue", node)
}

// ignoreNotExist returns no error for a control group that was removed meanwhile.
func ignoreNotExist(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV) {
		return nil
	}
	return err
}

// removeCgroups removes the control groups of the nodes, whose processes have ended.
func removeCgroups() error {
	all, err := hierarchies()
	if err != nil {
		return err
	}
	for _, hierarchy := range all {
		root := filepath.Join(hierarchy, cgroup)
		for range 100 { // the kernel removes ended processes a little later
			if err = removeTree(root); err == nil {
				break
			}
			time.Sleep(50 * time.Millisecond)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// removeTree removes control groups, the innermost first.
func removeTree(group string) error {
	entries, err := os.ReadDir(group)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.IsDir() {
			if err := removeTree(filepath.Join(group, entry.Name())); err != nil {
				return err
			}
		}
	}
	return os.Remove(group)
}
