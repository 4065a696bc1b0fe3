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

// validation contains the kinds whose code is VALIDATION_ERROR.
var validation = map[string]bool{
	"Validation": true, "MethodNotAllowed": true, "TooLarge": true, "UnsupportedMediaType": true, "RangeNotSatisfiable": true,
}

// withoutDetails contains the files whose faults get their details later, when the
// envelope is written, or are sent in the format of the OCI Distribution specification.
var withoutDetails = map[string]bool{
	"cloud/internal/api/registry/gate.go":     true,
	"cloud/internal/api/registry/upstream.go": true,
	"shared/httpd/errors.go":                  true,
	"worker/internal/auth/access/route.go":    true, // MethodNotAllowed
}

// TestValidationFaults_HaveDetails checks all code that creates a fault with the
// code VALIDATION_ERROR (specification 7.1).
func TestValidationFaults_HaveDetails(t *testing.T) {
	files := token.NewFileSet()
	count := 0
	for _, dir := range []string{"shared", "cloud", "worker"} {
		err := filepath.WalkDir("../../"+dir, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(files, path, nil, 0)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				found, complete := validationFault(n)
				if !found {
					return true
				}
				count++
				if !complete && !withoutDetails[strings.TrimPrefix(filepath.ToSlash(path), "../../")] {
					t.Errorf("%s: VALIDATION_ERROR without details: add a detail that names the field or the part of the request", files.Position(n.Pos()))
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if count < 20 {
		t.Errorf("found only %d validation faults: update this test", count)
	}
}

// validationFault reports whether n creates a fault with the code
// VALIDATION_ERROR, and whether that fault has details.
func validationFault(n ast.Node) (found, complete bool) {
	if literal, ok := n.(*ast.CompositeLit); ok {
		text, _ := selectorName(literal.Type)
		return text == "Error" && mentionsValidation(literal), false
	}
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return false, false
	}
	name, ok := selectorName(call.Fun)
	if !ok {
		return false, false
	}
	switch name {
	case "Invalid":
		return true, len(call.Args) > 0
	case "New", "Wrap":
		before := map[string]int{"New": 2, "Wrap": 3}[name]
		if len(call.Args) < before {
			return false, false
		}
		kind, _ := selectorName(call.Args[before-2])
		return validation[kind], len(call.Args) > before
	}
	return false, false
}

func mentionsValidation(literal *ast.CompositeLit) bool {
	for _, element := range literal.Elts {
		if pair, ok := element.(*ast.KeyValueExpr); ok {
			if name, _ := selectorName(pair.Value); validation[name] {
				return true
			}
		}
	}
	return false
}

// selectorName returns the name in an expression of the form fault.Name.
func selectorName(e ast.Expr) (name string, ok bool) {
	selector, ok := e.(*ast.SelectorExpr)
	if !ok {
		return "", false
	}
	if pkg, ok := selector.X.(*ast.Ident); !ok || pkg.Name != "fault" {
		return "", false
	}
	return selector.Sel.Name, true
}
