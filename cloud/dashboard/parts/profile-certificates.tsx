import { useRef, useState } from "preact/hooks";
import { Group } from "../../../shared/web/forms/choices";
import { Button, Time } from "../../../shared/web/ui";
import { texts } from "../texts/profiles";
import type { ProfileForm } from "./profile-fields";
import type { ClientCertificateValues } from "./profile-values";

const { certificates } = texts;

/** The client certificates. They can be added, replaced and removed, but their keys are never read. */
export function ClientCertificatesField({ form }: { form: ProfileForm }) {
  const list = form.values.clientCertificates;
  const set = (next: ClientCertificateValues[]) => form.set("clientCertificates", next);
  form.register("clientCertificates");
  return (
    <Group
      label={texts.fields.clientCertificates}
      hint={texts.hints.clientCertificates}
      error={form.errorOf("clientCertificates")}
    >
      {list.length > 0 && (
        <CertificateTable list={list} onRemove={(removed) => set(list.filter((c) => c !== removed))} />
      )}
      <AddCertificate onAdd={(added) => set([...list.filter((c) => c.origin !== added.origin), added])} />
    </Group>
  );
}

function CertificateTable({
  list,
  onRemove,
}: {
  list: ClientCertificateValues[];
  onRemove: (removed: ClientCertificateValues) => void;
}) {
  return (
    <div class="table-wrap">
      <table class="table cards" aria-label={certificates.table}>
        <thead>
          <tr>
            <th scope="col">{certificates.origin}</th>
            <th scope="col">{certificates.subject}</th>
            <th scope="col">{certificates.expires}</th>
            <th scope="col">
              <span class="visually-hidden">{certificates.remove}</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {list.map((certificate) => (
            <tr key={certificate.origin}>
              <td class="title">{certificate.origin}</td>
              <td data-label={certificates.subject}>{certificate.subject ?? certificates.added}</td>
              <td data-label={certificates.expires}>{certificate.expiresAt && <Time at={certificate.expiresAt} />}</td>
              <td>
                <Button
                  size="small"
                  aria-label={certificates.removeOf(certificate.origin)}
                  onClick={() => onRemove(certificate)}
                >
                  {certificates.remove}
                </Button>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function AddCertificate({ onAdd }: { onAdd: (added: ClientCertificateValues) => void }) {
  const files = useRef<HTMLInputElement>(null);
  const [origin, setOrigin] = useState("");
  const [passphrase, setPassphrase] = useState("");
  const [error, setError] = useState<string>();
  const add = async () => {
    if (!origin.trim()) return setError(certificates.noOrigin);
    let parts: Parts;
    try {
      parts = await readFiles([...(files.current?.files ?? [])]);
    } catch {
      return setError(certificates.unreadable);
    }
    if (!parts.pfx && !(parts.cert && parts.key)) return setError(certificates.noFiles);
    onAdd({ origin: origin.trim(), ...parts, ...(passphrase && { passphrase }) });
    setOrigin("");
    setPassphrase("");
    setError(undefined);
    if (files.current) files.current.value = "";
  };
  return (
    <>
      <div class="columns">
        <label class="field">
          <span>{certificates.origin}</span>
          <input
            class="input"
            value={origin}
            autocomplete="off"
            spellcheck={false}
            onInput={(event) => setOrigin(event.currentTarget.value)}
          />
          <span class="hint">{certificates.originHint}</span>
        </label>
        <label class="field">
          <span>{certificates.files}</span>
          <input ref={files} class="input" type="file" multiple accept=".pem,.crt,.cer,.key,.p12,.pfx" />
          <span class="hint">{certificates.filesHint}</span>
        </label>
        <label class="field">
          <span>{certificates.passphrase}</span>
          <input
            class="input"
            type="password"
            autocomplete="new-password"
            value={passphrase}
            onInput={(event) => setPassphrase(event.currentTarget.value)}
          />
          <span class="hint">{certificates.passphraseHint}</span>
        </label>
      </div>
      {error && (
        <span class="error" role="alert">
          {error}
        </span>
      )}
      <div>
        <Button size="small" onClick={() => void add()}>
          {certificates.add}
        </Button>
      </div>
    </>
  );
}

type Parts = Pick<ClientCertificateValues, "cert" | "key" | "pfx">;

const pemBlock = /-----BEGIN ([A-Z0-9 ]+)-----[^]+?-----END \1-----/g;

/** Returns what the files contain: PEM blocks in any order, or else a PKCS #12 file. */
async function readFiles(files: File[]): Promise<Parts> {
  const blocks: RegExpMatchArray[] = [];
  const parts: Parts = {};
  for (const file of files) {
    const found = [...(await file.text()).matchAll(pemBlock)];
    if (found.length === 0) parts.pfx = base64(new Uint8Array(await file.arrayBuffer()));
    blocks.push(...found);
  }
  const join = (type: RegExp) =>
    blocks
      .filter(([, name]) => type.test(name!))
      .map(([text]) => text + "\n")
      .join("");
  const cert = join(/^CERTIFICATE$/);
  const key = join(/PRIVATE KEY$/);
  return { ...parts, ...(cert && { cert }), ...(key && { key }) };
}

const base64 = (bytes: Uint8Array): string => btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
