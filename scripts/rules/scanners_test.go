package rules

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// TestScanners_AreCheckedForErrors checks that the Err of every bufio.Scanner is called, in the file that creates the
// scanner: after a failed read, Scan returns false as at the end.
func TestScanners_AreCheckedForErrors(t *testing.T) {
	files := token.NewFileSet()
	found := 0
	for _, dir := range []string{"shared", "cloud", "worker", "db", "scripts"} {
		err := filepath.WalkDir("../../"+dir, func(path string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case entry.IsDir() && entry.Name() == "node_modules":
				return fs.SkipDir
			case entry.IsDir() || !strings.HasSuffix(path, ".go"):
				return nil
			}
			file, err := parser.ParseFile(files, path, nil, 0)
			if err != nil {
				return err
			}
			created, checked := scannersOf(file)
			found += len(created)
			for name, position := range created {
				if !checked[name] {
					t.Errorf("%s: the Err of the scanner %s is not called; use strings.Lines for a text in memory", files.Position(position), name)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if found < 5 {
		t.Errorf("found only %d scanners: update this test", found)
	}
}

// scannersOf returns the names of the variables and fields of a file that are scanners, with the places that create
// them, and those whose Err is called.
func scannersOf(file *ast.File) (created map[string]token.Pos, checked map[string]bool) {
	created, checked = map[string]token.Pos{}, map[string]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for i, value := range n.Rhs {
				call, ok := value.(*ast.CallExpr)
				if ok && lastName(call.Fun) == "NewScanner" && i < len(n.Lhs) {
					created[lastName(n.Lhs[i])] = n.Pos()
				}
			}
		case *ast.CallExpr:
			if method, ok := n.Fun.(*ast.SelectorExpr); ok && method.Sel.Name == "Err" {
				checked[lastName(method.X)] = true
			}
		}
		return true
	})
	return created, checked
}

// lastName returns the name of a variable, a field or a function.
func lastName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}
