// Package env parses environment variables into a configuration struct. The
// Markdown table, the --help text and the configuration log line are generated from
// the same struct.
//
//	type Config struct {
//		Port     int           `env:"PORT" envDefault:"3000" doc:"Port to listen on."`
//		Key      string        `env:"SVC_KEY,required" secret:"true" doc:"Organization key."`
//		Database Database      `envPrefix:"DATABASE_"`
//	}
//
// The tags env (with the options required, notEmpty, file, expand), envDefault,
// envSeparator and envPrefix are those of caarlos0/env; doc, secret and group are this
// package's. A struct field without an env tag contains more variables. group is the
// heading of a field and of those after it, up to the next group.
//
// A secret can also be in a file: if SVC_KEY is unset or empty, SVC_KEY_FILE is the
// path of a file with its value.
package env

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/caarlos0/env/v11"
)

// Validator is implemented by configurations with rules across variables. Parse
// calls Validate after it has parsed all variables.
type Validator interface {
	Validate() error
}

// Error lists all problems of an environment.
type Error struct {
	Problems []Problem
}

// Problem is an invalid variable.
type Problem struct {
	Variable string
	Reason   string // without the value of a secret
}

// Error implements error, with one line per variable.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("invalid environment:")
	for _, p := range e.Problems {
		fmt.Fprintf(&b, "\n  %s: %s", p.Variable, p.Reason)
	}
	return b.String()
}

// Parse parses a T from environ, or from the process environment if environ is
// nil. It returns an *Error with all invalid variables, or the wrapped error of
// T's Validate. An empty variable has its default value.
func Parse[T any](environ map[string]string) (T, error) {
	var config T
	if environ == nil {
		environ = env.ToMap(os.Environ())
	}
	root := reflect.ValueOf(&config).Elem()
	var problems []Problem
	for _, v := range variables(root.Type()) {
		environ, err := v.withFile(environ)
		if err != nil {
			problems = append(problems, Problem{Variable: v.fileName(), Reason: err.Error()})
			continue
		}
		if err := v.read(root.FieldByIndex(v.index), environ); err != nil {
			problems = append(problems, Problem{Variable: v.name, Reason: v.parseErrorReason(err)})
		}
	}
	if len(problems) > 0 {
		return config, &Error{Problems: problems}
	}
	if validator, ok := any(&config).(Validator); ok {
		if err := validator.Validate(); err != nil {
			return config, fmt.Errorf("invalid environment: %w", err)
		}
	}
	return config, nil
}

// variable is an environment variable of a configuration struct.
type variable struct {
	name   string
	prefix string
	field  reflect.StructField
	index  []int // of the field, from the outermost struct
	group  string
}

// variables returns the variables of a struct type in the order of its fields.
func variables(structure reflect.Type) []variable { return variablesIn(structure, variable{}) }

// variablesIn returns the variables of a struct type that is the field of another one.
func variablesIn(structure reflect.Type, outer variable) []variable {
	var all []variable
	group := outer.group
	for i := range structure.NumField() {
		field := structure.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("env"), ",")
		group = cmp.Or(field.Tag.Get("group"), group)
		v := variable{name: outer.prefix + name, prefix: outer.prefix, field: field, index: append(slices.Clone(outer.index), i), group: group}
		switch {
		case !field.IsExported() || name == "-":
		case name != "":
			all = append(all, v)
		case field.Type.Kind() == reflect.Struct:
			v.prefix += field.Tag.Get("envPrefix")
			all = append(all, variablesIn(field.Type, v)...)
		}
	}
	return all
}

func (v variable) doc() string {
	doc := v.field.Tag.Get("doc")
	if v.secret() {
		doc += " Or its file: " + v.fileName() + "."
	}
	return doc
}

func (v variable) secret() bool { return v.field.Tag.Get("secret") == "true" }

func (v variable) required() bool {
	options := strings.Split(v.field.Tag.Get("env"), ",")[1:]
	return slices.Contains(options, "required") || slices.Contains(options, "notEmpty")
}

func (v variable) defaultValue() string { return v.field.Tag.Get("envDefault") }

// fileName is the variable with the path of the file that contains a secret.
func (v variable) fileName() string { return v.name + "_FILE" }

// maxSecretFile is the maximum size of a file with a secret, in bytes. Its purpose is
// to reject a wrong path, such as a device.
const maxSecretFile = 64 << 10

// withFile returns environ with the value of a secret from its file, without trailing
// line breaks, if the variable itself is empty and the file's variable is set.
func (v variable) withFile(environ map[string]string) (map[string]string, error) {
	path := environ[v.fileName()]
	if !v.secret() || path == "" || environ[v.name] != "" {
		return environ, nil
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxSecretFile+1))
	switch {
	case err != nil:
		return nil, err
	case len(text) > maxSecretFile:
		return nil, fmt.Errorf("%s is larger than %d bytes", path, maxSecretFile)
	}
	value := strings.TrimRight(string(text), "\r\n")
	if value == "" {
		return nil, fmt.Errorf("%s is empty", path)
	}
	environ = maps.Clone(environ)
	environ[v.name] = value
	return environ, nil
}

// read parses one variable into target. The library's errors name the Go field,
// so each variable is parsed on its own to know its name.
func (v variable) read(target reflect.Value, environ map[string]string) error {
	alone := reflect.New(reflect.StructOf([]reflect.StructField{{Name: v.field.Name, Type: v.field.Type, Tag: v.field.Tag}}))
	err := env.ParseWithOptions(alone.Interface(), env.Options{Environment: environ, Prefix: v.prefix})
	if err != nil {
		return err
	}
	target.Set(alone.Elem().Field(0))
	return nil
}

// parseErrorReason converts the library's error to a message without the values
// of secrets.
func (v variable) parseErrorReason(err error) string {
	if _, ok := errors.AsType[env.VarIsNotSetError](err); ok {
		return "is required"
	}
	if _, ok := errors.AsType[env.EmptyVarError](err); ok {
		return "must not be empty"
	}
	reason := fmt.Sprintf("not a valid %s", typeName(v.field.Type))
	if v.secret() {
		return reason
	}
	if parse, ok := errors.AsType[env.ParseError](err); ok {
		return reason + ": " + parse.Err.Error()
	}
	return err.Error()
}

// typeName returns a readable name of a type.
func typeName(t reflect.Type) string {
	switch {
	case t.String() == "time.Duration":
		return `duration, such as "30s"`
	case t.String() == "url.URL" || t.String() == "*url.URL":
		return "URL"
	case t.PkgPath() != "":
		return strings.ToLower(t.Name())
	}
	switch t.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return "whole number"
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "whole number from 0"
	case reflect.Float32, reflect.Float64:
		return "number"
	case reflect.Bool:
		return "boolean, true or false"
	case reflect.Slice:
		return "list, each entry a " + typeName(t.Elem())
	case reflect.Pointer:
		return typeName(t.Elem())
	}
	return t.String()
}
