// The receiver of RFC 9180 in base mode: DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-256-GCM; written from the
// standard, so that what the service seals is opened by somebody else's code.
import { createDecipheriv, createHmac, createPublicKey, diffieHellman, generateKeyPairSync } from "node:crypto";

const kem = Buffer.from("KEM\x00\x20", "latin1");
const suite = Buffer.from("HPKE\x00\x20\x00\x01\x00\x02", "latin1");
const none = Buffer.alloc(0);

/** Makes a key pair; `publicKey` is the base64 of its 32 bytes. */
export function newRecipient() {
  const { publicKey, privateKey } = generateKeyPairSync("x25519");
  const raw = Buffer.from(publicKey.export({ format: "jwk" }).x, "base64url");
  return { raw, publicKey: raw.toString("base64"), privateKey };
}

/** Opens what was sealed to the recipient; throws unless key, info and associated data are right. */
export function open(recipient, { enc, ciphertext, info, aad }) {
  const ephemeral = createPublicKey({
    key: { kty: "OKP", crv: "X25519", x: enc.toString("base64url") },
    format: "jwk",
  });
  const dh = diffieHellman({ privateKey: recipient.privateKey, publicKey: ephemeral });
  const shared = expand(
    kem,
    extract(kem, none, "eae_prk", dh),
    "shared_secret",
    Buffer.concat([enc, recipient.raw]),
    32,
  );
  const context = Buffer.concat([
    Buffer.of(0),
    extract(suite, none, "psk_id_hash", none),
    extract(suite, none, "info_hash", info),
  ]);
  const secret = extract(suite, shared, "secret", none);
  const decipher = createDecipheriv(
    "aes-256-gcm",
    expand(suite, secret, "key", context, 32),
    expand(suite, secret, "base_nonce", context, 12),
  );
  decipher.setAAD(aad).setAuthTag(ciphertext.subarray(-16));
  return Buffer.concat([decipher.update(ciphertext.subarray(0, -16)), decipher.final()]);
}

function extract(id, salt, label, input) {
  return createHmac("sha256", salt).update("HPKE-v1").update(id).update(label).update(input).digest();
}

// Every output here is at most one block of SHA-256, so HKDF-Expand is one step.
function expand(id, key, label, info, length) {
  const head = Buffer.concat([
    Buffer.of(length >> 8, length & 255),
    Buffer.from("HPKE-v1"),
    id,
    Buffer.from(label),
    info,
  ]);
  return createHmac("sha256", key).update(head).update(Buffer.of(1)).digest().subarray(0, length);
}
