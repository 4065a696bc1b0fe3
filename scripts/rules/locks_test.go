package rules

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"maps"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

// allowedLocks contains the locks that are held over I/O or waits, each with the reason.
var allowedLocks = map[string]string{
	"worker/internal/session/activity.Meter.mu":             "reads a counter of the kernel",
	"worker/internal/browser/process.Process.mu":            "reaps a dead process, whose id must not be signaled afterwards",
	"worker/internal/browser/process.UIDPool.mu":            "constant work on small files: the lock file of a user is the reservation",
	"worker/internal/cdp.Conn.mu":                           "the channel of an answer has space for it",
	"worker/internal/browser/extension.Store.mu":            "constant work on small files: the index of the directory",
	"worker/internal/data/files.Launch.mu":                  "the files of one launch: content and index change together",
	"worker/internal/data/files.Store.hashing":              "serializes checksums",
	"worker/internal/cdp/intercept.browserStream.mu":        "serializes writes to a client; the last one waits for the record of an end",
	"worker/internal/api/mcp.browser.mu":                    "sends without waiting for the answer",
	"worker/internal/data/profiledata.Handle.mu":            "serializes save and restore of one launch",
	"worker/internal/data/profiledata.LocalHandle.mu":       "serializes save and restore of one launch",
	"worker/internal/browser/proxy.connSet.mu":              "releases a slot, which never waits",
	"worker/internal/browser/proxy.contextProxies.mu":       "opens a socket for listening",
	"worker/internal/browser/proxy.endpoint.lookup":         "serializes lookups",
	"worker/internal/cloud/report.journal.disk":             "serializes writes of the journal",
	"worker/internal/cdp/resume.Conn.mu":                    "polls a socket without waiting",
	"worker/internal/session/warm.Pool[K, S].mu":            "the channel of a waiting launch has space for its browser",
	"worker/internal/api/webdriver.driverSession.uploading": "serializes the uploads of a session",
}

// blocking contains the functions outside of the module that do I/O or wait, by package and then by name;
// "*" stands for all functions and methods of a package that are not in pure.
var blocking = map[string][]string{
	"net":                     {"*"},
	"net/http":                {"Do", "Get", "Post", "Serve", "ListenAndServe", "Shutdown"},
	"os":                      {"*"},
	"os/exec":                 {"Run", "Start", "Wait", "Output", "CombinedOutput"},
	"io":                      {"Copy", "CopyN", "ReadAll", "ReadFull"},
	"database/sql":            {"*"},
	"time":                    {"Sleep"},
	"github.com/jmoiron/sqlx": {"*"},
	"golang.org/x/sys/unix":   {"*"},
	"syscall":                 {"*"},
	"sync":                    {"Wait"},
}

// pure contains the functions of these packages that neither do I/O nor wait. Closing is not counted either.
var pure = []string{"Close", "Getenv", "Getpid", "Geteuid", "Getuid", "Is", "IsNotExist", "SameFile", "Name", "Fd", "Error", "String", "Mode", "Size",
	"IsDir", "Sys", "JoinHostPort", "SplitHostPort", "ParseIP", "LocalAddr", "RemoteAddr", "Addr", "Kill", "Signal", "Unwrap", "ModTime", "Perm", "IsRegular",
	"Equal", "To4", "To16", "Network", "Pid", "Timeout", "Is4", "SetDeadline", "SetReadDeadline", "SetWriteDeadline", "CloseRead", "CloseWrite", "Type", "Info"}

// lockUse finds I/O and waits below locks.
type lockUse struct {
	files    *token.FileSet
	bodies   map[*types.Func]body
	blocks   map[*types.Func]string // what a function of the module does that blocks; "" while unknown or if nothing
	visiting map[*types.Func]bool
}

type body struct {
	block *ast.BlockStmt
	info  *types.Info
}

// TestLocks_AreNotHeldOverIO follows all static calls in the programs.
func TestLocks_AreNotHeldOverIO(t *testing.T) {
	loaded, err := packages.Load(&packages.Config{
		Context: t.Context(), Dir: "../..",
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo | packages.NeedImports,
	}, "./cloud/...", "./worker/...", "./shared/...", "./db/...")
	if err != nil {
		t.Fatal(err)
	}
	u := &lockUse{bodies: map[*types.Func]body{}, blocks: map[*types.Func]string{}, visiting: map[*types.Func]bool{}}
	for _, pkg := range loaded {
		for _, err := range pkg.Errors {
			t.Fatal(err)
		}
		u.files = pkg.Fset
		for _, file := range pkg.Syntax {
			for _, decl := range file.Decls {
				if f, ok := decl.(*ast.FuncDecl); ok && f.Body != nil {
					if object, ok := pkg.TypesInfo.Defs[f.Name].(*types.Func); ok {
						u.bodies[object] = body{f.Body, pkg.TypesInfo}
					}
				}
			}
		}
	}
	findings, locks := map[string][]string{}, 0
	for function, b := range u.bodies {
		if !isTestHelper(function.Pkg().Path()) {
			s := &lockScan{use: u, info: b.info, findings: findings}
			s.statements(b.block.List, map[string]bool{})
			locks += s.locks
		}
	}
	if locks < 100 {
		t.Errorf("found only %d uses of locks: update this test", locks)
	}
	for _, lock := range slices.Sorted(maps.Keys(findings)) {
		if allowedLocks[lock] == "" {
			slices.Sort(findings[lock])
			t.Errorf("%s is held over I/O:\n\t%s", lock, strings.Join(findings[lock], "\n\t"))
		}
	}
	for lock := range allowedLocks {
		if findings[lock] == nil {
			t.Errorf("%s is not held over I/O: remove it from the list", lock)
		}
	}
}

// isTestHelper reports whether only tests use a package.
func isTestHelper(path string) bool { return strings.HasSuffix(path, "test") }

// shortName returns the name of a function without the name of the module.
func shortName(name string) string { return strings.ReplaceAll(name, module, "") }

// reason returns what a function does that blocks, or "".
func (u *lockUse) reason(f *types.Func) string {
	if f == nil || f.Pkg() == nil {
		return ""
	}
	f = f.Origin()
	b, ours := u.bodies[f]
	if !ours {
		names := blocking[f.Pkg().Path()]
		if strings.HasPrefix(f.FullName(), "(*sync.Cond)") {
			return ""
		}
		if slices.Contains(names, f.Name()) || slices.Contains(names, "*") && !slices.Contains(pure, f.Name()) {
			return f.FullName()
		}
		return ""
	}
	if why, known := u.blocks[f]; known {
		return why
	}
	if u.visiting[f] {
		return ""
	}
	u.visiting[f] = true
	why := ""
	inspectSync(b.block, func(n ast.Node) bool {
		if why == "" {
			if inner := u.blockingNode(b.info, n); inner != "" {
				why = inner
			}
		}
		return why == ""
	})
	delete(u.visiting, f)
	if u.blocks[f] = why; why != "" {
		u.blocks[f] = f.Name() + " > " + why
	}
	return u.blocks[f]
}

// blockingNode returns what a node does that blocks, or "".
func (u *lockUse) blockingNode(info *types.Info, n ast.Node) string {
	switch n := n.(type) {
	case *ast.CallExpr:
		return u.reason(callee(info, n))
	case *ast.SendStmt:
		return "send to a channel"
	case *ast.UnaryExpr:
		if n.Op == token.ARROW {
			return "receive from a channel"
		}
	}
	return ""
}

// callee returns the function that a call calls, if it is known statically.
func callee(info *types.Info, call *ast.CallExpr) *types.Func {
	switch f := ast.Unparen(call.Fun).(type) {
	case *ast.Ident:
		function, _ := info.Uses[f].(*types.Func)
		return function
	case *ast.SelectorExpr:
		function, _ := info.Uses[f.Sel].(*types.Func)
		return function
	}
	return nil
}

// inspectSync visits what runs in the goroutine of a function: neither function literals nor go statements, nor the
// channel operations of a select statement that has a default.
func inspectSync(root ast.Node, visit func(ast.Node) bool) {
	ast.Inspect(root, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit, *ast.GoStmt:
			return false
		case *ast.SelectStmt:
			for _, clause := range n.Body.List {
				for _, s := range clause.(*ast.CommClause).Body {
					inspectSync(s, visit)
				}
			}
			if !hasDefault(n) {
				visit(&ast.UnaryExpr{Op: token.ARROW, OpPos: n.Pos(), X: &ast.Ident{NamePos: n.Pos()}})
			}
			return false
		}
		return n == nil || visit(n)
	})
}

func hasDefault(s *ast.SelectStmt) bool {
	return slices.ContainsFunc(s.Body.List, func(c ast.Stmt) bool { return c.(*ast.CommClause).Comm == nil })
}

// lockScan follows the locks of one function.
type lockScan struct {
	use      *lockUse
	info     *types.Info
	locks    int
	findings map[string][]string // by lock
}

// statements follows statements in their order. held contains the locks by their expressions, and is changed.
func (s *lockScan) statements(list []ast.Stmt, held map[string]bool) {
	for _, statement := range list {
		s.statement(statement, held)
	}
}

func (s *lockScan) statement(statement ast.Stmt, held map[string]bool) {
	switch statement := statement.(type) {
	case *ast.ExprStmt:
		if name, method := s.lock(statement.X); method == "Lock" || method == "RLock" {
			s.locks++
			held[name] = true
			return
		} else if method == "Unlock" || method == "RUnlock" {
			delete(held, name)
			return
		}
		s.check(statement, held)
	case *ast.DeferStmt: // runs at the end of the function
		if literal, ok := statement.Call.Fun.(*ast.FuncLit); ok {
			s.statements(literal.Body.List, map[string]bool{})
		}
	case *ast.BlockStmt:
		s.statements(statement.List, held)
	case *ast.IfStmt:
		s.optional(statement.Init, held)
		s.check(statement.Cond, held)
		s.branch(statement.Body.List, held)
		if statement.Else != nil {
			s.branch([]ast.Stmt{statement.Else}, held)
		}
	case *ast.ForStmt:
		s.optional(statement.Init, held)
		s.check(statement.Cond, held)
		s.statements(statement.Body.List, maps.Clone(held))
	case *ast.RangeStmt:
		s.check(statement.X, held)
		s.statements(statement.Body.List, maps.Clone(held))
	case *ast.SwitchStmt:
		s.optional(statement.Init, held)
		s.check(statement.Tag, held)
		s.clauses(statement.Body, held)
	case *ast.TypeSwitchStmt:
		s.clauses(statement.Body, held)
	case *ast.SelectStmt:
		if len(held) > 0 && !hasDefault(statement) {
			s.report(statement.Pos(), "select", held)
		}
		s.clauses(statement.Body, held)
	case *ast.LabeledStmt:
		s.statement(statement.Stmt, held)
	default:
		s.check(statement, held)
	}
}

func (s *lockScan) optional(statement ast.Stmt, held map[string]bool) {
	if statement != nil {
		s.statement(statement, held)
	}
}

func (s *lockScan) clauses(block *ast.BlockStmt, held map[string]bool) {
	for _, clause := range block.List {
		switch clause := clause.(type) {
		case *ast.CaseClause:
			for _, e := range clause.List {
				s.check(e, held)
			}
			s.branch(clause.Body, held)
		case *ast.CommClause:
			s.branch(clause.Body, held)
		}
	}
}

// branch follows statements that may be skipped. What they unlock stays locked after them if they end the function.
func (s *lockScan) branch(list []ast.Stmt, held map[string]bool) {
	after := maps.Clone(held)
	s.statements(list, after)
	if len(list) > 0 {
		switch list[len(list)-1].(type) {
		case *ast.ReturnStmt, *ast.BranchStmt:
			return
		}
	}
	clear(held)
	maps.Copy(held, after)
}

// lock returns the expression and the method of a call of a method of a mutex.
func (s *lockScan) lock(e ast.Expr) (name, method string) {
	call, ok := e.(*ast.CallExpr)
	if !ok {
		return "", ""
	}
	f := callee(s.info, call)
	if f == nil || f.Pkg() == nil || f.Pkg().Path() != "sync" {
		return "", ""
	}
	selector, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return "", ""
	}
	if field, ok := selector.X.(*ast.SelectorExpr); ok {
		if selection := s.info.Selections[field]; selection != nil {
			return shortName(strings.TrimLeft(types.TypeString(selection.Recv(), nil), "*")) + "." + field.Sel.Name, f.Name()
		}
	}
	return types.ExprString(selector.X), f.Name()
}

// check reports what a statement or an expression does that blocks, and follows its function literals.
func (s *lockScan) check(root ast.Node, held map[string]bool) {
	if root == nil {
		return
	}
	ast.Inspect(root, func(n ast.Node) bool {
		if literal, ok := n.(*ast.FuncLit); ok {
			s.statements(literal.Body.List, map[string]bool{})
			return false
		}
		return true
	})
	if len(held) == 0 {
		return
	}
	inspectSync(root, func(n ast.Node) bool {
		if why := s.use.blockingNode(s.info, n); why != "" {
			s.report(n.Pos(), why, held)
		}
		return true
	})
}

func (s *lockScan) report(position token.Pos, why string, held map[string]bool) {
	for lock := range held {
		s.findings[lock] = append(s.findings[lock], fmt.Sprintf("%s: %s", s.use.files.Position(position), why))
	}
}
