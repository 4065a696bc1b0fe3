package mail

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"mime"
	"net/mail"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Directory is a Transport for installations without a mail server: it writes
// each mail to a file that only its owner can read, and logs the file name.
type Directory struct {
	Path   string // created for the first mail
	From   string // the sender: an address, or "Name <address>"
	Logger *slog.Logger
}

// Deliver implements Transport.
func (d *Directory) Deliver(ctx context.Context, m Message) error {
	if err := os.MkdirAll(d.Path, 0o700); err != nil {
		return fmt.Errorf("create the mail directory: %w", err)
	}
	path := filepath.Join(d.Path, m.CreatedAt.UTC().Format("20060102T150405")+"-"+m.ID.String()+".eml")
	if err := writeFile(path, d.compose(m)); err != nil {
		return fmt.Errorf("write a mail: %w", err)
	}
	d.Logger.InfoContext(ctx, "wrote mail to a file: no mail server is configured", "to", m.To, "subject", m.Subject, "file", path)
	return nil
}

// writeFile writes the file atomically.
func writeFile(path, text string) error {
	file, err := os.CreateTemp(filepath.Dir(path), ".mail-*") // mode 0600
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		os.Remove(file.Name())
	}
	return err
}

func (d *Directory) compose(m Message) string {
	head := []string{
		"Message-ID: <" + messageID(m, d.From) + ">",
		"Date: " + m.CreatedAt.UTC().Format(time.RFC1123Z),
		"From: " + d.From,
		"To: " + m.To,
		"Subject: " + mime.QEncoding.Encode("utf-8", m.Subject),
		"MIME-Version: 1.0",
		"Content-Type: text/plain; charset=utf-8",
		"Content-Transfer-Encoding: 8bit",
	}
	text := strings.ReplaceAll(m.Text, "\r\n", "\n")
	return strings.Join(head, "\r\n") + "\r\n\r\n" + strings.ReplaceAll(text, "\n", "\r\n") + "\r\n"
}

// messageID returns the Message-ID of a mail, without brackets.
func messageID(m Message, fromHeader string) string {
	domain := "localhost"
	if sender, err := mail.ParseAddress(fromHeader); err == nil {
		domain = sender.Address[strings.LastIndexByte(sender.Address, '@')+1:]
	}
	return m.ID.String() + "@" + domain
}
