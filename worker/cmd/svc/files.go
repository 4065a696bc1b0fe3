package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	svc "github.com/browser-svc/svc/openapi/sdk/go"
	"github.com/browser-svc/svc/shared/program"
)

func (a *app) filesCommand() *cobra.Command {
	ls := a.sessionCommand("ls", "List the downloads and uploads of a session", callLimit, func(ctx context.Context, s *svc.Session) error {
		files, err := s.Files(ctx)
		if err != nil {
			return err
		}
		if a.json {
			return a.emit(append([]svc.File{}, files...))
		}
		rows := [][]string{{"FILE", "SOURCE", "STATE", "SIZE", "AGE", "NAME"}}
		for _, f := range files {
			rows = append(rows, []string{f.Id, string(f.Source), string(f.State), program.Bytes(f.Size), age(&f.CreatedAt), f.Name})
		}
		return a.list(rows)
	})
	return group("files", "List, get and put the files of a session", ls, a.filesGetCommand(), a.filesPutCommand())
}

func (a *app) filesGetCommand() *cobra.Command {
	var output string
	c := &cobra.Command{
		Use: "get SESSION FILE", Short: "Get a download of the browser", Args: cobra.ExactArgs(2), ValidArgsFunction: a.completeSession,
		Long: "Gets a file by its id, its name (the newest of that name) or as latest. Without --output, its name in this directory is that of the\nfile, and no other file is replaced.",
		RunE: func(_ *cobra.Command, args []string) error {
			ctx, stop := within(0)
			defer stop()
			session, err := a.findSession(ctx, args[0])
			if err != nil {
				return err
			}
			files, err := session.Files(ctx)
			if err != nil {
				return err
			}
			for _, file := range files { // the newest first
				if args[1] == "latest" || file.Id == args[1] || file.Name == args[1] {
					return a.download(ctx, session, file, output)
				}
			}
			return &codeError{exitNotFound, fmt.Errorf("no file %q: svc files ls %s lists them", args[1], args[0])}
		},
	}
	c.Flags().StringVarP(&output, "output", "o", "", "the `PATH` of the file; - for standard output")
	return c
}

func (a *app) download(ctx context.Context, session *svc.Session, file svc.File, output string) (err error) {
	content, err := session.OpenFile(ctx, file.Id)
	if err != nil {
		return err
	}
	defer content.Close()
	total := file.Size
	if file.TotalSize != nil {
		total = *file.TotalSize
	}
	source, end := a.progress("Downloading", content, total)
	defer end()
	if output == "-" {
		_, err := io.Copy(a.out, source)
		return err
	}
	path := output
	if path == "" {
		path = localName(file.Name)
		if _, err := os.Lstat(path); err == nil {
			return fmt.Errorf("%s exists: choose another path with --output", path)
		}
	}
	if err := saveFile(path, source); err != nil {
		return err
	}
	if a.json {
		return a.emit(file)
	}
	end()
	_, err = fmt.Fprintln(a.out, path)
	return err
}

// saveFile writes a file that only the user can read. It replaces another one when it is complete.
func saveFile(path string, content io.Reader) error {
	partial, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".part-")
	if err != nil {
		return err
	}
	defer os.Remove(partial.Name()) // without effect after the rename
	_, err = io.Copy(partial, content)
	if err = errors.Join(err, partial.Close()); err != nil {
		return err
	}
	return os.Rename(partial.Name(), path)
}

// localName is a name for this directory. Pages choose the names of their downloads.
func localName(name string) string {
	name = strings.TrimLeft(printable(filepath.Base(strings.ReplaceAll(name, "\\", "/"))), ".-")
	if name == "" || name == "/" {
		return "download"
	}
	return name
}

func (a *app) filesPutCommand() *cobra.Command {
	return &cobra.Command{
		Use: "put SESSION PATH", Short: "Put a file where the browser can read it", Args: cobra.ExactArgs(2),
		Long: "Uploads a file and prints its path on the worker, for DOM.setFileInputFiles and the file inputs of Selenium.",
		RunE: func(_ *cobra.Command, args []string) error {
			content, err := os.Open(args[1])
			if err != nil {
				return err
			}
			defer content.Close()
			info, err := content.Stat()
			if err != nil {
				return err
			}
			if !info.Mode().IsRegular() {
				return &codeError{exitUsage, fmt.Errorf("%s is not a file", args[1])}
			}
			ctx, stop := within(0)
			defer stop()
			session, err := a.findSession(ctx, args[0])
			if err != nil {
				return err
			}
			source, end := a.progress("Uploading", content, info.Size())
			stored, err := session.Upload(ctx, filepath.Base(args[1]), source)
			end()
			switch {
			case err != nil:
				return err
			case a.json:
				return a.emit(stored)
			}
			_, err = fmt.Fprintln(a.out, deref(stored.Path, stored.Id))
			return err
		},
	}
}

// progress shows the transfer on a terminal. End is called once or more.
func (a *app) progress(label string, content io.Reader, total int64) (source io.Reader, end func()) {
	if file, ok := a.errs.(*os.File); !ok || !isTerminal(file) {
		return content, func() {}
	}
	bar := program.NewProgress(a.errs, label, 0, total)
	ended := false
	return io.TeeReader(content, bar), func() {
		if !ended {
			bar.End()
		}
		ended = true
	}
}

func (a *app) stateCommand() *cobra.Command {
	var output string
	save := a.sessionCommand("save", "Save the cookies and the storage of a browser", callLimit, func(ctx context.Context, s *svc.Session) error {
		state, err := s.State(ctx)
		if err != nil {
			return err
		}
		if output == "" || output == "-" {
			return a.emit(state)
		}
		text, err := json.MarshalIndent(state, "", "  ")
		if err != nil {
			return err
		}
		_ = os.Remove(output) // it may be readable for others
		return os.WriteFile(output, append(text, '\n'), 0o600)
	})
	save.Flags().StringVarP(&output, "output", "o", "", "the `FILE`, which only you can read; otherwise standard output")
	save.Long = "Saves the cookies, the localStorage and the IndexedDB of a browser in Playwright's format. Launch another browser with it:\nsvc launch --state FILE, or svc run --state FILE. Keep it like a password."
	return group("state", "Save and load cookies and storage", save, a.loadCommand())
}
