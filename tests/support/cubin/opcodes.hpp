// SPDX-License-Identifier: Apache-2.0
/// @file Names of the machine's operations, sm_80 to sm_90.
#pragma once

#include <cstdint>
#include <string_view>

namespace cubin {

/// The low nine bits of an instruction name its operation; the three above them say where its operands come from, and
/// in a few cases tell two operations apart: those are entered with all twelve bits.
struct opcode_name {
  std::uint16_t operation;
  std::string_view name;
};

// clang-format off
inline constexpr opcode_name opcode_names[] = {
    // moves, selections, predicates
    {0x002, "MOV"}, {0x003, "P2R"}, {0x004, "R2P"}, {0x005, "CS2R"}, {0x006, "VOTE"}, {0x007, "SEL"}, {0x008, "FSEL"},
    {0x016, "PRMT"}, {0x01c, "PLOP3"}, {0x0ca, "R2UR"}, {0x1c2, "R2UR"}, {0x119, "S2R"}, {0x1c3, "S2UR"},
    {0x155, "BMOV"}, {0x156, "BMOV"}, {0x157, "BMOV"},
    // float
    {0x009, "FMNMX"}, {0x00a, "FSET"}, {0x00b, "FSETP"}, {0x020, "FMUL"}, {0x021, "FADD"}, {0x022, "FSWZADD"},
    {0x023, "FFMA"}, {0x102, "FCHK"}, {0x107, "FRND"}, {0x108, "MUFU"},
    // integer
    {0x00c, "ISETP"}, {0x010, "IADD3"}, {0x011, "LEA"}, {0x012, "LOP3"}, {0x013, "IABS"}, {0x014, "VABSDIFF"},
    {0x015, "VABSDIFF4"}, {0x017, "IMNMX"}, {0x019, "SHF"}, {0x01a, "SGXT"}, {0x01b, "BMSK"}, {0x024, "IMAD"},
    {0x025, "IMAD.WIDE"}, {0x026, "IDP"}, {0x027, "IMAD.HI"}, {0x036, "VIADD"}, {0x046, "VIADDMNMX"},
    {0x048, "VIMNMX"}, {0x049, "VIMNMX3"}, {0x100, "FLO"}, {0x101, "BREV"}, {0x109, "POPC"},
    // double
    {0x028, "DMUL"}, {0x029, "DADD"}, {0x02a, "DSETP"}, {0x02b, "DFMA"},
    // pairs of halves, tensor cores
    {0x030, "HADD2"}, {0x031, "HFMA2"}, {0x032, "HMUL2"}, {0x033, "HSET2"}, {0x034, "HSETP2"}, {0x035, "HFMA2.MMA"},
    {0x037, "IMMA"}, {0x03a, "MOVM"}, {0x03c, "HMMA"}, {0x03f, "DMMA"}, {0x040, "HMNMX2"},
    // conversions
    {0x039, "I2IP"}, {0x03e, "F2FP"}, {0x045, "I2FP"}, {0x104, "F2F"}, {0x105, "F2I"}, {0x106, "I2F"},
    {0x110, "F2F.64"}, {0x111, "F2I.64"}, {0x112, "I2F.64"}, {0x113, "FRND.64"},
    // the uniform datapath
    {0x080, "VOTEU"}, {0x082, "UMOV"}, {0x083, "UP2UR"}, {0x086, "VOTEU"}, {0x087, "USEL"}, {0x08c, "UISETP"},
    {0x090, "UIADD3"}, {0x091, "ULEA"}, {0x092, "ULOP3"}, {0x096, "UPRMT"}, {0x099, "USHF"}, {0x09a, "USGXT"},
    {0x09b, "UBMSK"}, {0x09c, "UPLOP3"}, {0x0a4, "UIMAD"}, {0x0a5, "UIMAD.WIDE"}, {0x0a7, "UIMAD.HI"},
    {0x0b9, "ULDC"}, {0x0bd, "UFLO"}, {0x0be, "UBREV"}, {0x0bf, "UPOPC"}, {0x1c4, "REDUX"},
    // memory
    {0x180, "LD"}, {0x181, "LDG"}, {0x182, "LDC"}, {0x183, "LDL"}, {0x184, "LDS"}, {0x185, "ST"}, {0x186, "STG"},
    {0x187, "STL"}, {0x188, "STS"}, {0x03b, "LDSM"}, {0x1ae, "LDGSTS"}, {0x1af, "LDGDEPBAR"}, {0x18a, "ATOM"},
    {0x18b, "ATOM.CAS"}, {0x18c, "ATOMS"}, {0x18d, "ATOMS.CAS"}, {0x18e, "RED"}, {0x18f, "CCTL"}, {0x190, "CCTLL"},
    {0x192, "MEMBAR"}, {0x1a8, "ATOMG"}, {0x1a9, "ATOMG.CAS"}, {0x1ab, "ERRBAR"}, {0x1a1, "MATCH"},
    {0x5ab, "CGAERRBAR"},
    // warps, barriers, branches
    {0x189, "SHFL"}, {0x118, "NOP"}, {0x11a, "DEPBAR"}, {0x11b, "ENDCOLLECTIVE"}, {0x11d, "BAR"}, {0x12f, "ELECT"},
    {0x141, "BSYNC"}, {0x142, "BREAK"}, {0x143, "CALL.ABS"}, {0x144, "CALL.REL"}, {0x145, "BSSY"}, {0x146, "YIELD"},
    {0x147, "BRA"}, {0x148, "WARPSYNC"}, {0x149, "BRX"}, {0x14a, "JMP"}, {0x14c, "JMX"}, {0x14d, "EXIT"},
    {0x14e, "LEPC"}, {0x150, "RET"}, {0x158, "BRXU"}, {0x15b, "KILL"}, {0x15c, "BPT"}, {0x15d, "NANOSLEEP"},
};
// clang-format on

/// The name that belongs to an instruction's low twelve bits, empty when it is not in the table.
constexpr std::string_view find_opcode_name(std::uint64_t bits) noexcept {
  std::string_view found;
  for (const opcode_name& entry : opcode_names) {
    if (entry.operation == bits) return entry.name;
    if (entry.operation == (bits & 0x1ffu)) found = entry.name;
  }
  return found;
}

}  // namespace cubin
