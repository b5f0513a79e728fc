/**
 * Lets a shared object that was linked with glibc 2.38 and GCC 13 load with older ones, as in Debian 12, where two things
 * are all that it lacks: the C23 forms of functions such as `strtol`, for which the older forms do, and a symbol of
 * libstdc++ that is referred to and never called.
 */
import { readFileSync, writeFileSync } from 'node:fs';

const C23 = '__isoc23_';
const MARKER = '_ZSt21ios_base_library_initv';
const NEWER = ['GLIBC_2.38', 'GLIBCXX_3.4.32'];
/** Types of sections of an ELF file. */
const [DYNSYM, VERNEED, VERSYM] = [11, 0x6ffffffe, 0x6fffffff];
const SYMBOL_BYTES = 24;
/** Any version of a symbol. */
const ANY = 1;
/** The flag of a version, and the binding of a symbol, that may be missing. */
const WEAK_VERSION = 2;
const WEAK_SYMBOL = 0x20;

export function useOlderLibraries(file) {
  const elf = readFileSync(file);
  const sections = Array.from({ length: elf.readUInt16LE(60) }, (_, index) => {
    const at = Number(elf.readBigUInt64LE(40)) + index * elf.readUInt16LE(58);
    const number = (offset) => Number(elf.readBigUInt64LE(at + offset));
    return { type: elf.readUInt32LE(at + 4), offset: number(24), size: number(32), link: elf.readUInt32LE(at + 40) };
  });
  const [symbols, needs, versions] = [DYNSYM, VERNEED, VERSYM].map((type) => sections.find((one) => one.type === type));
  const texts = sections[symbols.link].offset;
  const textAt = (offset) => elf.toString('latin1', texts + offset, elf.indexOf(0, texts + offset));
  for (let index = 0; index * SYMBOL_BYTES < symbols.size; index++) {
    const at = symbols.offset + index * SYMBOL_BYTES;
    const start = elf.readUInt32LE(at);
    const name = textAt(start);
    if (name.startsWith(C23)) elf.writeUInt32LE(start + C23.length, at);
    else if (name === MARKER) elf[at + 4] = WEAK_SYMBOL | (elf[at + 4] & 0xf);
    else continue;
    elf.writeUInt16LE(ANY, versions.offset + index * 2);
  }
  for (let need = needs.offset, nextNeed = 1; nextNeed !== 0; need += nextNeed) {
    nextNeed = elf.readUInt32LE(need + 12);
    for (let version = need + elf.readUInt32LE(need + 8), next = 1; next !== 0; version += next) {
      next = elf.readUInt32LE(version + 12);
      if (!NEWER.includes(textAt(elf.readUInt32LE(version + 8)))) continue;
      elf.writeUInt16LE(elf.readUInt16LE(version + 4) | WEAK_VERSION, version + 4);
    }
  }
  writeFileSync(file, elf);
}
