package main

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestParseFile_JoinsDocuments(t *testing.T) {
	for text, want := range map[string]string{
		"": `{}`,
		"profiles: [{name: a}]\n---\nprofiles: [{name: b}]\nnetworkRules: null": `{"networkRules":null,"profiles":[{"name":"a"},{"name":"b"}]}`,
		"x: &x {name: a}": "",
		"members: &m [{email: a@b.example, role: member}]\n---\nserviceAccounts: []": `{"members":[{"email":"a@b.example","role":"member"}],"serviceAccounts":[]}`,
		`{"profiles": [{"name": "a", "metadata": {"any": 1}}]}`:                      `{"profiles":[{"metadata":{"any":1},"name":"a"}]}`,
	} {
		content, err := parseFile([]byte(text))
		got, _ := json.Marshal(content)
		if want == "" && err == nil || want != "" && (err != nil || string(got) != want) {
			t.Errorf("%q: got %s, %v, want %s", text, got, err, want)
		}
	}
}

func TestParseFile_RefusesUnknownFieldsWithLine(t *testing.T) {
	for text, want := range map[string]string{
		"profiles:\n- name: a\n  colour: red\n":                    `line 3: profiles has the unknown field "colour"; known are args, browserVersion,`,
		"profiles:\n- name: a\n  viewport: {width: 1, depth: 2}\n": `line 3: viewport has the unknown field "depth"; known are height, width`,
		"profiles: []\n---\nsecrets: []\n":                         `line 3: the file has the unknown field "secrets"`,
		"serviceAccounts:\n- name: a\n  tokens: []\n":              `line 3: serviceAccounts has the unknown field "tokens"; known are disabled, name, scopes`,
		"members: {a: admin}\n":                                    "line 1: members has to be a list",
		"\n- name: a\n":                                            "line 2: the file has to be an object",
		"networkRules: {}\n---\nnetworkRules: {}\n":                "line 3: two documents have networkRules",
		"networkRules:\n  connect: {refuse: [a]}\n":                `line 2: connect has the unknown field "refuse"`,
	} {
		if _, err := parseFile([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}
