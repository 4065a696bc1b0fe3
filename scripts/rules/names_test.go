package rules

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// refusedNames contains prepositions, pronouns and participles, which do not say what they stand for.
var refusedNames = []string{"of", "to", "at", "in", "from", "one", "made", "seen", "wanted", "asked", "begun", "taken", "shown"}

// TestNames_AreNouns refuses these names for variables, fields, functions and types, in tests as well.
func TestNames_AreNouns(t *testing.T) {
	files := token.NewFileSet()
	for _, dir := range []string{"shared", "cloud", "worker", "db", "openapi", "scripts"} {
		err := filepath.WalkDir("../../"+dir, func(path string, entry fs.DirEntry, err error) error {
			name := strings.TrimPrefix(path, "../../")
			switch {
			case err != nil:
				return err
			case entry.IsDir() && entry.Name() == "node_modules":
				return fs.SkipDir
			case entry.IsDir() || !strings.HasSuffix(name, ".go"):
				return nil
			}
			file, err := parser.ParseFile(files, path, nil, 0)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				for _, id := range declaredNames(n) {
					if slices.Contains(refusedNames, id.Name) {
						t.Errorf("%s: %s does not say what it is: use a noun", files.Position(id.Pos()), id.Name)
					}
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// declaredNames returns the names that n itself declares.
func declaredNames(n ast.Node) (names []*ast.Ident) {
	var defined []ast.Expr
	switch n := n.(type) {
	case *ast.Field:
		return n.Names
	case *ast.ValueSpec:
		return n.Names
	case *ast.FuncDecl:
		return []*ast.Ident{n.Name}
	case *ast.TypeSpec:
		return []*ast.Ident{n.Name}
	case *ast.AssignStmt:
		if n.Tok == token.DEFINE {
			defined = n.Lhs
		}
	case *ast.RangeStmt:
		if n.Tok == token.DEFINE {
			defined = []ast.Expr{n.Key, n.Value}
		}
	}
	for _, each := range defined {
		if id, ok := each.(*ast.Ident); ok {
			names = append(names, id)
		}
	}
	return names
}
